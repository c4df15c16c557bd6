// Package domain turns an instance into a libvirt domain, in two stages and one
// step that writes.
//
//	Frontend(instance, frontend settings) → Partial: what the guest sees
//	Backend(partial, backend settings, host facts) → Whole: how a host provides it
//	Render(domain) → XML
//
// Each stage is an ordered list of small steps, one for each device or concern,
// one file for each step: frontend_disk.go, backend_disk.go. A step reads the
// instance and writes its own part of a libvirtxml.Domain. Stage 2 knows no
// path, no socket and no host; stage 3 changes nothing that a guest sees. What
// a guest sees and only a host can know is late-bound: stage 2 leaves a
// placeholder (Late) that stage 3 must resolve, or the instance cannot be
// rendered. What stage 3 resolves, chooses or must do without is a Decision.
//
// The laws, each of them tested: both stages are functions of their
// arguments alone; every field of an instance's spec is in the table of
// fields (Fields), and one that is set and unsupported is an error that names
// it; two backends of one partial differ in nothing that a guest sees, but
// what late-bound facts and recorded degradations say.
//
// The mapping follows KubeVirt's virt-launcher (pkg/virt-launcher/virtwrap);
// docs/domain.md lists where it differs and why.
package domain
