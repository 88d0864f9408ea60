/* The first sector of a disk that a guest boots from: sends the text of the
 * second one to the serial port, writes it to the third one, and ends QEMU. */
.code16
/* Where the firmware puts it. */
.set packet, 0x7c00 + its_packet - _start
.globl _start
_start:
  xorw %ax, %ax
  movw %ax, %ds
  movw %ax, %es
  movw %ax, %ss
  movw $0x7c00, %sp
  movb $0x42, %ah          /* Extended read; %dl is the drive. */
  movw $packet, %si
  int $0x13
  jc failed
  movw $0x8000, %si
next:
  lodsb
  testb %al, %al
  jz printed
  pushw %dx
  movw $0x3f8, %dx
  outb %al, %dx
  popw %dx
  jmp next
printed:
  movl $2, packet + 8
  movw $0x4300, %ax        /* Extended write. */
  movw $packet, %si
  int $0x13
  jc failed
  movb $16, %al            /* QEMU's exit status is 2 * 16 + 1. */
  jmp end
failed:
  movb $17, %al
end:
  outb %al, $0xf4
  hlt
  jmp end

its_packet:                /* One sector, to and from 0000:8000. */
  .byte 16, 0
  .word 1
  .word 0x8000, 0
  .quad 1

.org 510
  .word 0xaa55
