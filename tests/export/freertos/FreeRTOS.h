/* FreeRTOS.h: stands in for the kernel, which no package index has: the types and calls that the task uses, and a
 * scheduler that runs a task until it waits. */
#ifndef STAND_IN_FREERTOS_H
#define STAND_IN_FREERTOS_H

#include <stddef.h>
#include <stdint.h>

#define TICK_TYPE_WIDTH_32_BITS 1
#include "FreeRTOSConfig.h"

#if configSUPPORT_DYNAMIC_ALLOCATION
#error "everything is to be static"
#endif

typedef long BaseType_t;
typedef unsigned long UBaseType_t;
typedef uint32_t TickType_t;
typedef uint32_t StackType_t;
typedef struct { void (*code)(void *); void *argument; StackType_t *stack; uint32_t words; unsigned long priority; } StaticTask_t;
typedef StaticTask_t *TaskHandle_t;
typedef struct { uint8_t *storage; uint32_t length, item, used; } StaticQueue_t;
typedef StaticQueue_t *QueueHandle_t;

#define pdTRUE 1L
#define pdPASS 1L
#define portMAX_DELAY 0xFFFFFFFFu

#endif
