/* stand_in.c: see FreeRTOS.h beside it. Tasks are functions that run until they wait; a wait runs the other tasks, and
 * comes back by a jump out of the one that gave the notification. */
#include "port/port.h"

#include "queue.h"
#include "task.h"

#include <stdlib.h>
#include <string.h>

static StaticTask_t *tasks[4];
static StaticTask_t *current;
static uint32_t count;
static uint32_t notified;
static void *resume[5];

TaskHandle_t xTaskCreateStatic(void (*code)(void *), const char *name, uint32_t words, void *argument,
                               UBaseType_t priority, StackType_t *stack, StaticTask_t *task)
{
    *task = (StaticTask_t){code, argument, stack, words, priority};
    tasks[count++] = task;
    return name == NULL ? NULL : task;
}

TaskHandle_t xTaskGetCurrentTaskHandle(void)
{
    return current;
}

void vTaskStartScheduler(void)
{
    StaticTask_t *idle;
    StackType_t *stack;
    configSTACK_DEPTH_TYPE words;
    vApplicationGetIdleTaskMemory(&idle, &stack, &words);
    current = tasks[0]->priority > tasks[1]->priority ? tasks[0] : tasks[1];
    current->code(current->argument);
}

uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t wait)
{
    (void)clear;
    (void)wait;
    StaticTask_t *const waiting = current;
    if (__builtin_setjmp(resume) == 0) {
        current = tasks[0] == waiting ? tasks[1] : tasks[0];
        current->code(current->argument);
    }
    current = waiting;
    return notified--;
}

BaseType_t xTaskNotifyGive(TaskHandle_t task)
{
    (void)task;
    notified++;
    __builtin_longjmp(resume, 1);
}

QueueHandle_t xQueueCreateStatic(UBaseType_t length, UBaseType_t item, uint8_t *storage, StaticQueue_t *queue)
{
    *queue = (StaticQueue_t){storage, (uint32_t)length, (uint32_t)item, 0};
    return queue;
}

BaseType_t xQueueSend(QueueHandle_t queue, const void *item, TickType_t wait)
{
    (void)wait;
    memcpy(queue->storage + queue->used++ * queue->item, item, queue->item);
    return pdPASS;
}

BaseType_t xQueueReceive(QueueHandle_t queue, void *item, TickType_t wait)
{
    (void)wait;
    memcpy(item, queue->storage + --queue->used * queue->item, queue->item);
    return pdPASS;
}

void exit(int code)
{
    port_exit(code);
}
