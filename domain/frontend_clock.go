package domain

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// timezoneForm is what libvirt's schema takes.
var timezoneForm = regexp.MustCompile(`^[a-zA-Z0-9_.+/-]+$`)

// The policies and tracks that libvirt has for timers of QEMU, as KubeVirt's API
// names them.
var (
	rtcPolicies  = []string{"catchup", "delay"}
	rtcTracks    = []string{"guest", "wall"}
	pitPolicies  = []string{"catchup", "delay", "discard"}
	hpetPolicies = []string{"catchup", "delay", "discard", "merge"}
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
	case c.Timezone != nil && !timezoneForm.MatchString(string(*c.Timezone)):
		g.refuse(field.Invalid(at.Child("timezone"), *c.Timezone, "must be the name of a time zone such as Europe/Berlin"))
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
	at := field.NewPath("spec", "domain", "clock", "timer")
	add := func(name, policy, track string, enabled *bool) {
		out = append(out, libvirtxml.DomainTimer{Name: name, TickPolicy: policy, Track: track, Present: yesNo(ptr.Deref(enabled, true))})
	}
	if t.RTC != nil {
		g.oneOf(at.Child("rtc", "tickPolicy"), string(t.RTC.TickPolicy), rtcPolicies)
		g.oneOf(at.Child("rtc", "track"), string(t.RTC.Track), rtcTracks)
		add("rtc", string(t.RTC.TickPolicy), string(t.RTC.Track), t.RTC.Enabled)
	}
	if t.PIT != nil {
		g.oneOf(at.Child("pit", "tickPolicy"), string(t.PIT.TickPolicy), pitPolicies)
		add("pit", string(t.PIT.TickPolicy), "", t.PIT.Enabled)
	}
	if t.KVM != nil {
		add("kvmclock", "", "", t.KVM.Enabled)
	}
	if t.HPET != nil {
		g.oneOf(at.Child("hpet", "tickPolicy"), string(t.HPET.TickPolicy), hpetPolicies)
		add("hpet", string(t.HPET.TickPolicy), "", t.HPET.Enabled)
	}
	if t.Hyperv != nil {
		add("hypervclock", "", "", t.Hyperv.Enabled)
	}
	return out
}

// oneOf refuses a value that is neither empty nor known.
func (g *guest) oneOf(at *field.Path, value string, known []string) {
	if value != "" && !slices.Contains(known, value) {
		g.refuse(field.NotSupported(at, value, known))
	}
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
