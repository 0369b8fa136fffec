/* task.h: see FreeRTOS.h beside it. */
#include "FreeRTOS.h"
TaskHandle_t xTaskCreateStatic(void (*code)(void *), const char *name, uint32_t words, void *argument,
                               UBaseType_t priority, StackType_t *stack, StaticTask_t *task);
TaskHandle_t xTaskGetCurrentTaskHandle(void);
void vTaskStartScheduler(void);
BaseType_t xTaskNotifyGive(TaskHandle_t task);
uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t wait);
void vApplicationGetIdleTaskMemory(StaticTask_t **control, StackType_t **words, configSTACK_DEPTH_TYPE *count);
