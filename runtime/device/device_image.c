/* device_image.c -- the compiled kernels, inside the program.  The assembler finds the files in
 * the plan's folder (-Wa,-I). */
#include "device.h"

__asm__(".section .rodata\n"
        ".balign 64\n.globl ig_image_step\nig_image_step:\n.incbin \"step.cubin\"\n"
        ".balign 64\n.globl ig_image_batch\nig_image_batch:\n.incbin \"batch.cubin\"\n"
        ".text\n");
