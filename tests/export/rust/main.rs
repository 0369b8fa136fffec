//! Firmware of a user: one golden vector through the crate, and what it says goes to the console of the start-up in C.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use top1_e3_tiny_model::{check_arithmetic, verify, Memory, Model, INPUTS, OUTPUTS};

const GOLDEN_INPUTS: &[u8] = include_bytes!("../../rust/tests/golden_inputs.bin");
const GOLDEN_OUTPUTS: &[u8] = include_bytes!("../../rust/tests/golden_outputs.bin");

static mut MEMORY: Memory = Memory::new();

extern "C" {
    fn puts(text: *const u8) -> i32;
}

fn is_equal(memory: &mut Memory) -> bool {
    let mut inputs = [0.0; INPUTS];
    let mut outputs = [0.0; OUTPUTS];
    for (input, word) in inputs.iter_mut().zip(GOLDEN_INPUTS.chunks_exact(4)) {
        *input = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
    if verify().is_err() || check_arithmetic().is_err() {
        return false;
    }
    match Model::new(memory) {
        Ok(mut model) => {
            let answered = model.forward(&inputs, &mut outputs).is_ok();
            let golden = GOLDEN_OUTPUTS.chunks_exact(4);
            answered && outputs.len() == golden.len() && outputs.iter().zip(golden).all(|(one, word)| one.to_le_bytes() == word)
        }
        Err(_) => false,
    }
}

#[no_mangle]
pub extern "C" fn main() -> i32 {
    let equal = is_equal(unsafe { &mut *core::ptr::addr_of_mut!(MEMORY) });
    let text: &[u8] = if equal { b"equal to the reference\0" } else { b"different\0" };
    unsafe { puts(text.as_ptr()) };
    !equal as i32
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}
