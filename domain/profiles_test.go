package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func frontendProfile(t *testing.T, name, spec string) v1alpha1.FrontendProfile {
	t.Helper()
	p := v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

func backendProfile(t *testing.T, name, spec string) v1alpha1.BackendProfile {
	t.Helper()
	p := v1alpha1.BackendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// guestUnder renders what the guest of a VMI sees under profiles, given as priority and settings.
func guestUnder(t *testing.T, spec string, profiles ...string) string {
	t.Helper()
	var frontend []v1alpha1.FrontendProfile
	for i, p := range profiles {
		frontend = append(frontend, frontendProfile(t, string(rune('a'+i)), p))
	}
	compiled, errs := CompileProfiles(frontend, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c := &goldenCase{}
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Spec); err != nil {
		t.Fatal(err)
	}
	plan, errs := compiled.Plan(c.vmi(), nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return rendered(t, &plan.Guest.Domain)
}

func TestProfilesMerge(t *testing.T) {
	for name, c := range map[string]struct {
		reason   string
		spec     string
		profiles []string
		want     []string
		not      []string
	}{
		"priority": {
			reason:   "the higher priority wins, field by field",
			profiles: []string{"{priority: 1, smbios: {family: Low, product: Low}}", "{priority: 2, smbios: {family: High}}"},
			want:     []string{`"family">High<`, `"product">Low<`, `"manufacturer">KubeVirt<`},
		},
		"name": {
			reason:   "among equal priorities the first name wins",
			profiles: []string{"{smbios: {family: A}}", "{smbios: {family: B}}"},
			want:     []string{`"family">A<`},
		},
		"false": {
			reason:   "false is a value",
			profiles: []string{"{priority: 2, rng: false}", "{rng: true}"},
			not:      []string{"<rng"},
		},
		"on": {
			reason:   "{} enables a feature that a weaker profile disables",
			profiles: []string{"{priority: 10, hyperv: {relaxed: {}}}", "{hyperv: {relaxed: {enabled: false}}}"},
			want:     []string{`<relaxed state="on">`},
		},
		"family": {
			reason:   "a guest family has the priority of its profile",
			profiles: []string{"{priority: 100, guestFamily: Windows}", "{priority: -5, timers: {hpet: {present: true}, rtc: {tickPolicy: delay}}, hyperv: {vpindex: {enabled: false}}}"},
			want:     []string{`<timer name="hpet" present="no">`, `<timer name="rtc" tickpolicy="catchup"`, `<vpindex state="on">`},
		},
		"stronger than family": {
			reason:   "a stronger profile overrides a family",
			profiles: []string{"{guestFamily: Windows}", "{priority: 5, timers: {hpet: {present: true}}}"},
			want:     []string{`<timer name="hpet" present="yes">`, `<timer name="hypervclock" present="yes">`},
		},
		"needs": {
			reason:   "required enlightenments are added",
			profiles: []string{"{hyperv: {synictimer: {}, ipi: {}, evmcs: {}}}"},
			want:     []string{`<vpindex state="on">`, `<synic state="on">`, `<stimer state="on">`, `<vapic state="on">`, `<feature policy="require" name="vmx">`},
		},
		"disabled need": {
			reason:   "enlightenments that need a disabled one are left out",
			spec:     "{domain: {features: {hyperv: {vpindex: {enabled: false}}}}}",
			profiles: []string{"{guestFamily: Windows, hyperv: {ipi: {}, tlbflush: {}}}"},
			want:     []string{`<vpindex state="off">`, `<relaxed state="on">`},
			not:      []string{"<synic", "<stimer", "<ipi", "<tlbflush"},
		},
		"VMI": {
			reason:   "the VMI overrides profiles, also by {}",
			spec:     "{domain: {features: {hyperv: {relaxed: {}, vapic: {enabled: false}}}}}",
			profiles: []string{"{hyperv: {relaxed: {enabled: false}, vapic: {}}}"},
			want:     []string{`<relaxed state="on">`, `<vapic state="off">`},
		},
		"passthrough": {
			reason:   "a VMI with passthrough gets nothing else",
			spec:     "{domain: {features: {hypervPassthrough: {}}}}",
			profiles: []string{"{guestFamily: Windows}"},
			want:     []string{`<hyperv mode="passthrough">`},
		},
		"no passthrough": {
			reason:   "disabled passthrough has no effect",
			spec:     "{domain: {features: {hypervPassthrough: {enabled: false}}}}",
			profiles: []string{"{guestFamily: Windows}"},
			want:     []string{`<relaxed state="on">`},
		},
		"arm64": {
			reason:   "other architectures have no such timers and enlightenments",
			spec:     "{architecture: arm64, domain: {}}",
			profiles: []string{"{guestFamily: Windows}"},
			not:      []string{"<timer", "<hyperv"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.spec == "" {
				c.spec = "{domain: {}}"
			}
			got := guestUnder(t, c.spec, c.profiles...)
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s: no %s in\n%s", c.reason, part, got)
				}
			}
			for _, part := range c.not {
				if strings.Contains(got, part) {
					t.Errorf("%s: %s in\n%s", c.reason, part, got)
				}
			}
		})
	}
}

func TestProfilesMatch(t *testing.T) {
	profiles, errs := CompileProfiles([]v1alpha1.FrontendProfile{
		frontendProfile(t, "all", "{priority: -1}"),
		frontendProfile(t, "windows", "{priority: 5, match: {labels: {matchLabels: {os: windows}}}}"),
		frontendProfile(t, "prod", "{match: {namespaces: {matchLabels: {tier: prod}}}}"),
		frontendProfile(t, "arm", "{match: {architectures: [arm64]}}"),
	}, []v1alpha1.BackendProfile{
		backendProfile(t, "amd", "{match: {architectures: [amd64]}}"),
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Labels = map[string]string{"os": "windows"}
	_, frontend := profiles.Frontend(vmi, map[string]string{"tier": "prod"})
	if diff := cmp.Diff([]string{"windows", "prod", "all"}, frontend); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	_, backend := profiles.Backend(vmi, nil)
	if diff := cmp.Diff([]string{"amd"}, backend); diff != "" {
		t.Errorf("amd64 is the default; -want, +got:\n%s", diff)
	}
	vmi.Spec.Architecture, vmi.Labels = "arm64", nil
	_, frontend = profiles.Frontend(vmi, nil)
	if diff := cmp.Diff([]string{"arm", "all"}, frontend); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestInvalidProfiles(t *testing.T) {
	for spec, want := range map[string]string{
		"{guestFamily: BeOS}":                                                 "spec.guestFamily: Unsupported value",
		"{machine: 'q 35'}":                                                   "spec.machine: Invalid value",
		"{video: {type: hologram}}":                                           "spec.video.type: Unsupported value",
		"{video: {vram: 1}}":                                                  "spec.video.vram: Invalid value",
		"{priority: 2000000}":                                                 "spec.priority: Invalid value",
		`{smbios: {sku: "a\u0001"}}`:                                          "spec.smbios.sku: Invalid value",
		"{timers: {rtc: {tickPolicy: foo}}}":                                  "spec.timers.rtc.tickPolicy: ",
		"{hyperv: {spinlocks: {spinlocks: 1}}}":                               "spec.hyperv.spinlocks.spinlocks: Invalid value",
		"{hyperv: {vendorid: {vendorid: much-too-long}}}":                     "spec.hyperv.vendorid.vendorid: ",
		"{machine: pc-q35-7.2}":                                               "spec.machine: ",
		"{match: {labels: {matchExpressions: [{key: a, operator: Is}]}}}":     "spec.match.labels: Forbidden",
		"{match: {namespaces: {matchExpressions: [{key: a, operator: In}]}}}": "spec.match.namespaces: Forbidden",
		"{match: {architectures: [x86_64]}}":                                  "spec.match.architectures[0]: Unsupported value",
	} {
		compiled, errs := CompileProfiles([]v1alpha1.FrontendProfile{frontendProfile(t, "p", spec)}, nil)
		if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), "FrontendProfile p: "+want) {
			t.Errorf("%s: got %v, want %s", spec, errs, want)
		}
		if len(compiled.frontend) > 0 {
			t.Errorf("%s: the invalid profile is used", spec)
		}
	}
}
