// Package names keeps machines apart: a namespace and a name identify one
// VirtualMachine and its instance, and no two machines share what must be
// theirs alone. It is pure: what else there is comes in as values.
//
// No cache can be asked about two objects that are created at once, so the
// rules run twice: at admission, against an index ([Check]), and afterwards in
// a controller, which reports what slipped through ([Conflicts]).
package names
