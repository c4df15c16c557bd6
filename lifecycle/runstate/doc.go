// Package runstate decides what becomes of a VirtualMachine's instance: whether
// it is made, deleted, adopted or left alone, which requests are done with, and
// what status says. It is pure; time comes in as a value.
//
// A Situation is what is observed, [Decide] says what to do about it, and
// [Situation.Status] what to tell. The controller in lifecycle/virtualmachine
// observes and applies.
package runstate
