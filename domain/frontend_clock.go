package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// clock says what time the guest finds, and by which timers it goes, in
// KubeVirt's order. A guest that is told when its counter changes, or that
// insists on one that does not, gets the host's frequency, late-bound.
func (g *guest) clock() {
	c := g.spec.Domain.Clock
	tsc := g.wantsTSC()
	if c == nil && tsc == "" {
		return
	}
	out := &libvirtxml.DomainClock{Offset: "utc"}
	g.domain.Clock = out
	if c != nil {
		g.offset(c, out)
		if c.Timer != nil {
			out.Timer = g.timers(c.Timer)
		}
	}
	if tsc != "" {
		out.Timer = append(out.Timer, libvirtxml.DomainTimer{Name: "tsc"})
		g.bind(Late{Kind: LateTSC, Field: tsc})
	}
}

func (g *guest) offset(c *kubevirtv1.Clock, out *libvirtxml.DomainClock) {
	at := field.NewPath("spec", "domain", "clock")
	switch {
	case c.UTC != nil && c.Timezone != nil:
		g.refuse(field.Forbidden(at.Child("timezone"), "the instance names utc as well; remove one of the two"))
	case c.Timezone != nil:
		out.Offset, out.TimeZone = "timezone", string(*c.Timezone)
	case c.UTC != nil && c.UTC.OffsetSeconds != nil:
		out.Adjustment = fmt.Sprint(*c.UTC.OffsetSeconds)
	case c.UTC != nil:
		out.Adjustment = "reset"
	}
}

// timers are those that the instance names, or switches off.
func (g *guest) timers(t *kubevirtv1.Timer) []libvirtxml.DomainTimer {
	var out []libvirtxml.DomainTimer
	add := func(name, policy, track string, enabled *bool) {
		out = append(out, libvirtxml.DomainTimer{Name: name, TickPolicy: policy, Track: track, Present: yesNo(ptr.Deref(enabled, true))})
	}
	if t.RTC != nil {
		add("rtc", string(t.RTC.TickPolicy), string(t.RTC.Track), t.RTC.Enabled)
	}
	if t.PIT != nil {
		add("pit", string(t.PIT.TickPolicy), "", t.PIT.Enabled)
	}
	if t.KVM != nil {
		add("kvmclock", "", "", t.KVM.Enabled)
	}
	if t.HPET != nil {
		add("hpet", string(t.HPET.TickPolicy), "", t.HPET.Enabled)
	}
	if t.Hyperv != nil {
		add("hypervclock", "", "", t.Hyperv.Enabled)
	}
	return out
}

// wantsTSC is the field by which the instance asks for a counter of a known
// frequency; empty where none does.
func (g *guest) wantsTSC() string {
	domain := &g.spec.Domain
	if domain.Features != nil && domain.Features.Hyperv != nil && on(domain.Features.Hyperv.Reenlightenment) && g.arch.hyperv {
		return "spec.domain.features.hyperv.reenlightenment"
	}
	if domain.CPU == nil {
		return ""
	}
	for i, f := range domain.CPU.Features {
		if f.Name == "invtsc" && (f.Policy == "" || f.Policy == "require") {
			return field.NewPath("spec", "domain", "cpu", "features").Index(i).String()
		}
	}
	return ""
}
