/* Arduino.h: stands in for a core: a serial port that prints lines. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

void setup(void);
void loop(void);

struct SerialPort {
    void begin(unsigned long) {}
    explicit operator bool() const { return true; }
    bool operator!() const { return false; }
    void println(const char *text) { puts(text); }
};

extern SerialPort Serial;

#endif
