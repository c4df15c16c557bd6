package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// tpm gives the guest a TPM. As KubeVirt has it, one that keeps its state is a
// tpm-crb, which QEMU has on amd64 alone, and another one a tpm-tis.
func (g *guest) tpm() {
	t, at := g.spec.Domain.Devices.TPM, devicesAt.Child("tpm")
	if t == nil || !ptr.Deref(t.Enabled, true) {
		return
	}
	model := "tpm-tis"
	if ptr.Deref(t.Persistent, false) {
		model = "tpm-crb"
	}
	switch {
	case g.arch.channelIO():
		g.refuse(field.Forbidden(at, "must be left out: "+g.arch.name+" has no TPM"))
	case model == "tpm-crb" && g.arch.name != "amd64":
		g.refuse(field.Invalid(at.Child("persistent"), true, "must be false: "+g.arch.name+" has no tpm-crb"))
	}
	g.devices.TPMs = []libvirtxml.DomainTPM{{Model: model}}
}
