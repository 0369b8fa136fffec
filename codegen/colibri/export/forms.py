"""All forms: to add one, write a file here and a folder in `templates/export/`, and name it in this list."""

from __future__ import annotations

from colibri.export import (
    arduino,
    cmake,
    cmsis_pack,
    esp_idf,
    freertos,
    npm,
    pkg_config,
    platformio,
    python,
    rust,
    stm32cubeide,
    web_page,
    zephyr,
)
from colibri.export.form import Form

FORMS: tuple[Form, ...] = (
    cmake.FORM,
    pkg_config.FORM,
    zephyr.FORM,
    esp_idf.FORM,
    platformio.FORM,
    arduino.FORM,
    stm32cubeide.FORM,
    cmsis_pack.FORM,
    freertos.FORM,
    python.FORM,
    rust.FORM,
    npm.FORM,
    web_page.FORM,
)
