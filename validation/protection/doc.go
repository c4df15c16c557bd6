// Package protection protects fields that only trusted writers may change: owner references of VMs
// and VMIs, virtwright's annotations and finalizers, and spec and status of VMIs. It is pure.
//
// A rule is data: a part of the object that must not change. The validating webhook checks it
// ([Guard.Check]), and ValidatingAdmissionPolicies with the same rule in CEL ([Guard.Policies])
// work while no webhook answers. A test compares both.
//
// Two more policies limit the manager: the pods that it creates, and the command that it executes
// in them. Another policy checks the annotation that records the requester of a template.
//
// Trust is for a field, not for a user: controllers such as KubeVirt's copy what users write into
// pools, clones and snapshots, so they are trusted with VMIs and with the owner references of VMs
// only.
//
// Writers are identified by the user name that the API server authenticated. Administrators are not
// trusted as such. A request with impersonation counts as that of the impersonated user, so an
// administrator can override the protection, which the audit log records.
package protection
