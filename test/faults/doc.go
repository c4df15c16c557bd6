// Package faults breaks each call to the API server that a start, a stop, a
// restart or a deletion takes, in every way that a call can break, and shows
// that the machine ends where it was sent: nobody's wish is lost, and there is
// one instance.
package faults
