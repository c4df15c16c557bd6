package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// timezoneForm is what libvirt's schema accepts.
var timezoneForm = regexp.MustCompile(`^[a-zA-Z0-9_.+/-]+$`)

// clock sets the guest's time and its timers, in KubeVirt's order. A guest with reenlightenment, or
// one that requires an invariant counter, gets the counter's frequency from the host.
func (g *guest) clock() {
	c, tsc := g.spec.Domain.Clock, g.needsTSC()
	if c == nil && tsc == nil {
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
	if tsc != nil {
		out.Timer = append(out.Timer, libvirtxml.DomainTimer{Name: "tsc"})
		g.leaveToHost(kindTSC, tsc, "")
	}
}

func (g *guest) offset(c *kubevirtv1.Clock, out *libvirtxml.DomainClock) {
	at := field.NewPath("spec", "domain", "clock")
	switch {
	case c.UTC != nil && c.UTC.OffsetSeconds != nil: // utc has precedence over timezone, as in KubeVirt
		out.Adjustment = fmt.Sprint(*c.UTC.OffsetSeconds)
	case c.UTC != nil:
		out.Adjustment = "reset"
	case c.Timezone != nil && !timezoneForm.MatchString(string(*c.Timezone)):
		g.reject(field.Invalid(at.Child("timezone"), *c.Timezone, "must be the name of a time zone such as Europe/Berlin"))
	case c.Timezone != nil:
		out.Offset, out.TimeZone = "timezone", string(*c.Timezone)
	}
}

// timers are those that the VMI enables or disables, with libvirt's policies and tracks for QEMU.
func (g *guest) timers(t *kubevirtv1.Timer) []libvirtxml.DomainTimer {
	var out []libvirtxml.DomainTimer
	at := field.NewPath("spec", "domain", "clock", "timer")
	add := func(name string, enabled *bool, policy string, policies []string) {
		if isOn := ptr.Deref(enabled, true); isOn && g.arch.name != "amd64" && name != "rtc" && name != "pit" {
			g.reject(field.Forbidden(at.Child(strings.TrimSuffix(name, "clock")), "guests of "+g.arch.name+" do not have it; remove it"))
		}
		g.oneOf(at.Child(name, "tickPolicy"), policy, policies)
		out = append(out, libvirtxml.DomainTimer{Name: name, TickPolicy: policy, Present: yesNo(ptr.Deref(enabled, true))})
	}
	if t.RTC != nil {
		add("rtc", t.RTC.Enabled, string(t.RTC.TickPolicy), []string{"catchup", "delay"})
		g.oneOf(at.Child("rtc", "track"), string(t.RTC.Track), []string{"guest", "wall"})
		out[0].Track = string(t.RTC.Track)
	}
	if t.PIT != nil {
		add("pit", t.PIT.Enabled, string(t.PIT.TickPolicy), []string{"catchup", "delay", "discard"})
	}
	if t.KVM != nil {
		add("kvmclock", t.KVM.Enabled, "", nil)
	}
	if t.HPET != nil {
		add("hpet", t.HPET.Enabled, string(t.HPET.TickPolicy), []string{"catchup", "delay", "discard", "merge"})
	}
	if t.Hyperv != nil {
		add("hypervclock", t.Hyperv.Enabled, "", nil)
	}
	return out
}

// needsTSC is the field that asks for a counter of a known frequency; nil if none does.
func (g *guest) needsTSC() *field.Path {
	domain := &g.spec.Domain
	if domain.Features != nil && domain.Features.Hyperv != nil && on(domain.Features.Hyperv.Reenlightenment) && g.arch.hyperv {
		return field.NewPath("spec", "domain", "features", "hyperv", "reenlightenment")
	}
	if domain.CPU == nil {
		return nil
	}
	for i, f := range domain.CPU.Features {
		if f.Name == "invtsc" && (f.Policy == "" || f.Policy == "require") {
			return field.NewPath("spec", "domain", "cpu", "features").Index(i)
		}
	}
	return nil
}

// resolveTSC sets the frequency of the guest's counter to the host's. Emulated guests have no such
// counter.
func (h *host) resolveTSC(p Placeholder) {
	clock := h.domain.Clock
	if clock == nil {
		return
	}
	i := slices.IndexFunc(clock.Timer, func(t libvirtxml.DomainTimer) bool { return t.Name == "tsc" })
	switch {
	case i < 0:
	case h.emulated:
		clock.Timer = slices.Delete(clock.Timer, i, i+1)
		h.decide(Decision{Field: p.Field, Element: "clock/timer[@name='tsc']", Reason: noFrequency, Degraded: true})
	case h.facts.TSCFrequency == 0:
		h.missing(p, "tscFrequency")
	default:
		clock.Timer[i].Frequency = h.facts.TSCFrequency
		h.resolved(p, "clock/timer[@name='tsc']/@frequency", fmt.Sprint(h.facts.TSCFrequency), "the host's")
	}
}
