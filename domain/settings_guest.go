package domain

import (
	"reflect"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// familyTimers are the timers that a family of guests is known to want.
func familyTimers(family v1alpha1.GuestFamily) *kubevirtv1.Timer {
	if family != v1alpha1.GuestFamilyLinux && family != v1alpha1.GuestFamilyWindows {
		return nil
	}
	timers := &kubevirtv1.Timer{
		RTC:  &kubevirtv1.RTCTimer{TickPolicy: kubevirtv1.RTCTickPolicyCatchup},
		PIT:  &kubevirtv1.PITTimer{TickPolicy: kubevirtv1.PITTickPolicyDelay},
		HPET: &kubevirtv1.HPETTimer{Enabled: new(false)},
	}
	if family == v1alpha1.GuestFamilyWindows {
		timers.Hyperv = &kubevirtv1.HypervTimer{}
	}
	return timers
}

// familyHyperV are the enlightenments that a family of guests is known to
// want: those that KubeVirt's own Windows example and its documentation name.
func familyHyperV(family v1alpha1.GuestFamily) *kubevirtv1.FeatureHyperv {
	if family != v1alpha1.GuestFamilyWindows {
		return nil
	}
	return &kubevirtv1.FeatureHyperv{
		Relaxed: &kubevirtv1.FeatureState{}, VAPIC: &kubevirtv1.FeatureState{},
		Spinlocks: &kubevirtv1.FeatureSpinlocks{Retries: new(uint32(8191))},
		VPIndex:   &kubevirtv1.FeatureState{}, Runtime: &kubevirtv1.FeatureState{}, SyNIC: &kubevirtv1.FeatureState{},
		SyNICTimer: &kubevirtv1.SyNICTimer{}, Frequencies: &kubevirtv1.FeatureState{}, Reset: &kubevirtv1.FeatureState{},
	}
}

// spellOut says in words what settings mean, so that they can be merged field
// by field: a guest family is timers and enlightenments, and {} is one that is on.
func spellOut(s *v1alpha1.FrontendSettings) {
	fill(reflect.ValueOf(&s.Timers).Elem(), reflect.ValueOf(familyTimers(s.GuestFamily)))
	fill(reflect.ValueOf(&s.HyperV).Elem(), reflect.ValueOf(familyHyperV(s.GuestFamily)))
	switchOn(reflect.ValueOf(s.Timers))
	switchOn(reflect.ValueOf(s.HyperV))
}

// switchOn sets every Enabled below a value that says nothing.
func switchOn(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		switchOn(v.Elem())
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.Name == "Enabled" && value.IsNil() {
				value.Set(reflect.ValueOf(new(true)))
			} else {
				switchOn(value)
			}
		}
	}
}

// completed is a copy of an instance in which the frontend settings have
// filled what the instance itself can say and has not said. Timers and
// enlightenments are for guests of amd64: others have none.
func completed(vmi *kubevirtv1.VirtualMachineInstance, settings *v1alpha1.FrontendSettings) *kubevirtv1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	arch, err := architectureOf(out.Spec.Architecture)
	if err != nil || !arch.hyperv {
		return out
	}
	settings = settings.DeepCopy()
	spellOut(settings)
	domain := &out.Spec.Domain
	if settings.Timers != nil {
		if domain.Clock == nil {
			domain.Clock = &kubevirtv1.Clock{ClockOffset: kubevirtv1.ClockOffset{UTC: &kubevirtv1.ClockOffsetUTC{}}}
		}
		switchOn(reflect.ValueOf(domain.Clock.Timer))
		fill(reflect.ValueOf(&domain.Clock.Timer).Elem(), reflect.ValueOf(settings.Timers))
	}
	if settings.HyperV != nil {
		completeHyperV(domain, settings.HyperV)
	}
	return out
}

// completeHyperV leaves instances alone that take what the host offers. What
// the settings add does without what it would need and the instance refuses,
// and brings along what nobody has said anything of.
func completeHyperV(domain *kubevirtv1.DomainSpec, settings *kubevirtv1.FeatureHyperv) {
	if domain.Features == nil {
		domain.Features = &kubevirtv1.Features{}
	}
	f := domain.Features
	if p := f.HypervPassthrough; p != nil && on(&kubevirtv1.FeatureState{Enabled: p.Enabled}) {
		return
	}
	own := f.Hyperv
	if own == nil {
		own = &kubevirtv1.FeatureHyperv{}
	}
	switchOn(reflect.ValueOf(own))
	all := own.DeepCopy()
	fill(reflect.ValueOf(all).Elem(), reflect.ValueOf(settings).Elem())
	meetNeeds(all, own)
	f.Hyperv = all
	if on(all.EVMCS) && !on(own.EVMCS) {
		requireVMX(domain)
	}
}

// meetNeeds brings along what enlightenments need that are not an instance's
// own, or leaves them out.
func meetNeeds(all, own *kubevirtv1.FeatureHyperv) {
	for _, n := range hypervNeeds {
		need := n.need(all)
		switch {
		case !n.wants(all) || n.wants(own):
		case *need == nil:
			*need = &kubevirtv1.FeatureState{Enabled: new(true)}
		case !on(*need):
			n.drop(all)
		}
	}
}

// requireVMX lets the guest nest guests, which its enlightened VMCS is for.
func requireVMX(domain *kubevirtv1.DomainSpec) {
	if domain.CPU == nil {
		domain.CPU = &kubevirtv1.CPU{}
	}
	vmx := func(f kubevirtv1.CPUFeature) bool { return f.Name == "vmx" }
	if !slices.ContainsFunc(domain.CPU.Features, vmx) {
		domain.CPU.Features = append(domain.CPU.Features, kubevirtv1.CPUFeature{Name: "vmx", Policy: "require"})
	}
}

// hypervNeeds are the enlightenments that need another one, those first that
// others depend on last: KubeVirt's own defaults have the same.
var hypervNeeds = []struct {
	wants func(*kubevirtv1.FeatureHyperv) bool
	drop  func(*kubevirtv1.FeatureHyperv)
	need  func(*kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState
}{{
	func(h *kubevirtv1.FeatureHyperv) bool { return on(h.SyNIC) },
	func(h *kubevirtv1.FeatureHyperv) { h.SyNIC = nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.VPIndex },
}, {
	func(h *kubevirtv1.FeatureHyperv) bool { return h.SyNICTimer != nil && on(&h.SyNICTimer.FeatureState) },
	func(h *kubevirtv1.FeatureHyperv) { h.SyNICTimer = nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.SyNIC },
}, {
	func(h *kubevirtv1.FeatureHyperv) bool { return on(h.SyNIC) }, // which a timer may have brought along
	func(h *kubevirtv1.FeatureHyperv) { h.SyNIC, h.SyNICTimer = nil, nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.VPIndex },
}, {
	func(h *kubevirtv1.FeatureHyperv) bool { return on(h.IPI) },
	func(h *kubevirtv1.FeatureHyperv) { h.IPI = nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.VPIndex },
}, {
	func(h *kubevirtv1.FeatureHyperv) bool { return h.TLBFlush != nil && on(&h.TLBFlush.FeatureState) },
	func(h *kubevirtv1.FeatureHyperv) { h.TLBFlush = nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.VPIndex },
}, {
	func(h *kubevirtv1.FeatureHyperv) bool { return on(h.EVMCS) },
	func(h *kubevirtv1.FeatureHyperv) { h.EVMCS = nil },
	func(h *kubevirtv1.FeatureHyperv) **kubevirtv1.FeatureState { return &h.VAPIC },
}}
