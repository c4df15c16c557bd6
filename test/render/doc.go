// Package render tests what becomes of other people's instances: their domains beside those that
// KubeVirt makes, difference by difference, and all of them beside what libvirt accepts and QEMU
// starts.
package render
