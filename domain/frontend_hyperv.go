package domain

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// spinlockRetries are KubeVirt's where nothing is said.
const spinlockRetries = 4096

// What libvirt takes: how often a guest retries at least, and how long a vendor
// is at most.
const (
	leastRetries = 4095
	maxVendor    = 12
)

// hyperv offers the guest Hyper-V's enlightenments, one by one, or, where none
// is named, those that the host has.
func (g *guest) hyperv() {
	f := g.spec.Domain.Features
	if f == nil || !g.arch.hyperv {
		return
	}
	if p := f.HypervPassthrough; p != nil && ptr.Deref(p.Enabled, true) {
		at := field.NewPath("spec", "domain", "features", "hypervPassthrough")
		if f.Hyperv != nil {
			g.refuse(field.Forbidden(at, "the instance names enlightenments in hyperv; remove one of the two"))
			return
		}
		g.domain.Features.HyperV = &libvirtxml.DomainFeatureHyperV{Mode: "passthrough"}
		g.bind(Late{Kind: LateHyperVPassthrough, Field: at.String()})
		return
	}
	if f.Hyperv != nil {
		g.checkEnlightenments(f.Hyperv)
		g.domain.Features.HyperV = enlightenments(f.Hyperv)
	}
}

// checkEnlightenments refuses what libvirt refuses. Retries that are switched
// off do not matter to it; the form of a vendor does.
func (g *guest) checkEnlightenments(in *kubevirtv1.FeatureHyperv) {
	at := field.NewPath("spec", "domain", "features", "hyperv")
	if s := in.Spinlocks; s != nil && on(&s.FeatureState) && ptr.Deref(s.Retries, spinlockRetries) < leastRetries {
		g.refuse(field.Invalid(at.Child("spinlocks", "spinlocks"), *s.Retries, fmt.Sprintf("must be at least %d", leastRetries)))
	}
	v, at := in.VendorID, at.Child("vendorid", "vendorid")
	switch {
	case v == nil:
	case v.VendorID == "" && on(&v.FeatureState):
		g.refuse(field.Required(at, fmt.Sprintf("must be the name that the guest finds, at most %d characters", maxVendor)))
	case len(v.VendorID) > maxVendor || strings.Contains(v.VendorID, ","):
		g.refuse(field.Invalid(at, v.VendorID, fmt.Sprintf("must be at most %d characters, without commas", maxVendor)))
	}
}

// enlightenments are libvirt's words for KubeVirt's.
func enlightenments(in *kubevirtv1.FeatureHyperv) *libvirtxml.DomainFeatureHyperV {
	out := &libvirtxml.DomainFeatureHyperV{
		Relaxed: asked(in.Relaxed), VAPIC: asked(in.VAPIC), VPIndex: asked(in.VPIndex), Runtime: asked(in.Runtime),
		Synic: asked(in.SyNIC), Reset: asked(in.Reset), Frequencies: asked(in.Frequencies),
		ReEnlightenment: asked(in.Reenlightenment), IPI: asked(in.IPI), EVMCS: asked(in.EVMCS),
	}
	if s := in.Spinlocks; s != nil {
		out.Spinlocks = &libvirtxml.DomainFeatureHyperVSpinlocks{DomainFeatureState: *asked(&s.FeatureState)}
		if on(&s.FeatureState) {
			out.Spinlocks.Retries = uint(ptr.Deref(s.Retries, spinlockRetries))
		}
	}
	if s := in.SyNICTimer; s != nil {
		out.STimer = &libvirtxml.DomainFeatureHyperVSTimer{DomainFeatureState: *asked(&s.FeatureState), Direct: asked(s.Direct)}
	}
	if v := in.VendorID; v != nil {
		out.VendorId = &libvirtxml.DomainFeatureHyperVVendorId{DomainFeatureState: *asked(&v.FeatureState), Value: v.VendorID}
	}
	if t := in.TLBFlush; t != nil {
		out.TLBFlush = &libvirtxml.DomainFeatureHyperVTLBFlush{
			DomainFeatureState: *asked(&t.FeatureState), Direct: asked(t.Direct), Extended: asked(t.Extended),
		}
	}
	return out
}

// asked is a feature as it was asked for; nil where it was not.
func asked(f *kubevirtv1.FeatureState) *libvirtxml.DomainFeatureState {
	if f == nil {
		return nil
	}
	return state(on(f))
}
