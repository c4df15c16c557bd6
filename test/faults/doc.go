// Package faults breaks each call to the API server that a start, a stop, a restart or a deletion
// takes, in every way that a call can break, and shows that the VM reaches the requested state: no
// request is lost, and there is one VMI.
package faults
