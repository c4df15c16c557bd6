# A boot sector that goes to long mode, writes OK to the first serial port, and halts.
.code16
.globl _start
_start:
    cli
    cld
    xor %ax, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x7c00, %sp
    # page tables at 0x1000..0x3fff: PML4, PDPT, PD with one page of 2 MiB
    mov $0x1000, %di
    xor %eax, %eax
    mov $0xc00, %cx
    rep stosl
    movw $0x2003, 0x1000
    movw $0x3003, 0x2000
    movw $0x0083, 0x3000
    # PAE, CR3, LME, paging and protection
    mov %cr4, %eax
    or $0x20, %al
    mov %eax, %cr4
    mov $0x1000, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx
    rdmsr
    or $0x100, %eax
    wrmsr
    lgdtl gdtr
    mov %cr0, %eax
    or $0x80000001, %eax
    mov %eax, %cr0
    ljmp $8, $long
.code64
long:
    mov $16, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x7c00, %esp
    # work a while with 64 bits, SSE off, and the time stamp counter
    mov $200000, %ecx
    mov $0x9e3779b97f4a7c15, %rbx
1:  imul %rbx, %rbx
    add $1, %rbx
    push %rbx
    pop %rdx
    loop 1b
    xor %eax, %eax
    cpuid
    rdtsc
    mov $msg, %esi
2:  lodsb
    test %al, %al
    jz 3f
    mov %al, %ah
    mov $0x3fd, %dx
4:  in (%dx), %al
    test $0x20, %al
    jz 4b
    mov $0x3f8, %dx
    mov %ah, %al
    out %al, (%dx)
    jmp 2b
3:  hlt
    jmp 3b
msg: .asciz "virtwright: long mode\n"
.align 8
gdt: .quad 0
     .quad 0x00209a0000000000
     .quad 0x0000920000000000
gdtr: .word gdtr-gdt-1
     .long gdt
.org 510
.word 0xaa55
