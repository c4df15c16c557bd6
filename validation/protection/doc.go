// Package protection guards what only trusted writers may write: the owner
// references of machines, virtwright's own annotations and finalizers, and spec
// and status of instances. It is pure.
//
// A [Rule] is data: a part of the object that must stay as it is. From it come
// both what the validating webhook checks ([Guard.Check]) and the CEL of the
// ValidatingAdmissionPolicies ([Guard.Policies]), which the API server evaluates
// itself, also while no webhook answers. A test puts both to the same cases.
//
// Node agents are trusted writers whom a policy of their own binds: each to the
// instances of the node that its token is bound to, and there to status and one
// finalizer.
//
// Who asks for a template, by a request or by an annotation, is asked for in a
// stamp, which a policy holds to say who writes it.
//
// Who writes is known by user name, as the API server authenticated it. Being
// an administrator does not make anybody trusted, and impersonation is judged
// as the impersonated user: that is how an administrator breaks the glass, in
// the audit log.
package protection
