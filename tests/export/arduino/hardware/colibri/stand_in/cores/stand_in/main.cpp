/* main.cpp: calls the sketch once, and ends. */
#include "Arduino.h"

SerialPort Serial;

int main()
{
    setup();
    return 0;
}
