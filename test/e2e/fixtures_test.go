package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// A setup is a manager under which some fixtures can be tried.
type setup struct {
	name   string
	flags  []string
	config validation.Config
	tried  []validationtest.Fixture
}

// setups are few and do for almost all fixtures: each is tried under the first one in which its
// rule, asked in process, says what the fixture expects.
var setups = []*setup{
	{name: "by default", flags: []string{"--feature-gates=" + theGates(""), "--grace-gpu=nvidia.com/GB200"}},
	{name: "with all features", flags: []string{"--feature-gates=" + theGates("true"), "--grace-gpu=nvidia.com/GB200"}},
	{name: "without features", flags: []string{"--feature-gates=" + theGates("false")}},
	{name: "with features of another choice", flags: []string{
		"--feature-gates=" + theGates("") + ",WorkloadEncryptionSEV=true,HostDevices=true,HostDevicesWithDRA=false,GraceIOVirtualization=true",
		"--vm-rollout-strategy=Stage", "--emulated-machines=amd64=q35*", "--grace-gpu=nvidia.com/GB200",
	}},
	{name: "without bridges", flags: []string{
		"--feature-gates=" + theGates(""), "--forbid-bridge-on-pod-network", "--default-network-interface=masquerade",
	}},
	{name: "alongside KubeVirt", flags: []string{"--mode=addon"}},
}

// untried are the fixtures that no setup fits, beside those of updates: a manager that could show
// them would need all machines to be of another architecture, or does not start.
var untried = []string{
	"architecture-supported/a default that is none",
	"dedicated-cpus-threads/two where arm64 is the default",
	"machine-type-supported/a pattern that is none fits nothing",
}

// atLeast is how many fixtures there are to try. Updates are tried in process only, because few
// fixtures could be stored before the update; see the stories of "A rule that is new".
const atLeast = 700

// otherwise are fixtures for which an API server answers something else than their rule, each with
// a part of the answer.
var otherwise = map[string]string{
	// The schema has the rule too, and is asked first.
	"container-disk-image/no image":                      "image: Required value",
	"container-path-absolute/4097 characters":            "Too long: may not be more than 4096 bytes",
	"container-path-absolute/relative":                   "must be absolute",
	"container-path-absolute/up again":                   "must not contain '..'",
	"container-path-read-only/written":                   "readOnly must be true",
	"cpu-topology-possible/wraps around in 64 bits":      "must be of type integer with format int32",
	"data-volume-source-fields/reference without a name": "sourceRef.name: Required value",
	"empty-disk-capacity/no capacity":                    "capacity: Required value",
	"empty-disk-capacity/no capacity alongside KubeVirt": "capacity: Required value",
	"input-type/none alongside KubeVirt":                 "Required value",
	"kernel-boot-image/none":                             "container.image: Required value",
	"node-affinity-preference/none":                      "preference: Required value",
	"node-affinity-preference/none alongside KubeVirt":   "preference: Required value",
	"probe-port/without a port":                          "port: Required value",
	"probe-port/without a port alongside KubeVirt":       "port: Required value",
	"network-limits/257":                                 "must have at most 256 items",
	"pod-affinity-topology-key/none":                     "topologyKey: Required value",
	"resource-claim-name-unique/twice":                   `Duplicate value: {"name":"one"}`,
	"topology-spread-key/none twice":                     "topologyKey: Required value",
	"topology-spread-skew/none":                          "maxSkew: Required value",
	"topology-spread-unique/twice":                       "Duplicate value: {",
	// API servers check names of metadata themselves, before the last webhooks.
	"machine-metadata/invalid names":            "name part must consist of alphanumeric characters",
	"machine-metadata/invalid value of a label": "a valid label must be",
	// Only controllers write owner references.
	"bootable-device/a VMI of a controller, which was warned of its template": "(owner-references)",
	// Presets cannot merge lists that have a name twice, and say so before.
	"disk-name-unique/a disk and a cdrom of one name": `disks[1].name: Duplicate value: "a"`,
	"disk-name-unique/third of many in a VM":          `disks[9].name: Duplicate value: "c7"`,
	"gpu-name-unique/twice":                           `gpus[2].name: Duplicate value: "one"`,
	"input-name-unique/twice":                         `inputs[2].name: Duplicate value: "one"`,
	"volume-name-unique/two of one name":              `volumes[1].name: Duplicate value: "a"`,
	// KubeVirt gives the guest the memory of the limit, which is the invalid value then.
	"hugepages-whole/of a limit": "memory.guest",
	// Standalone mode serves no instancetypes at all.
	"instancetype-sizes/all of them":          "does not support instancetypes",
	"instancetype-sizes/inferred for certain": "does not support instancetypes",
	// Platform defaults mend it, or some of it.
	"hyperv-evmcs-needs-vmx/other features only": taken,
	"run-state-given/nothing":                    taken,
	"template-given/none":                        "(memory-given)",
	"volume-has-device/in an instance":           taken,
	"volume-has-device/nothing uses it":          taken,
	// Requests to running VMs are in their status, which a create does not have.
	"volume-request-action/neither, and both":                taken,
	"volume-request-boot-order/zero":                         taken,
	"volume-request-bus/sata, and a lun on virtio":           taken,
	"volume-request-clash/another volume":                    taken,
	"volume-request-device/none, and a cdrom":                taken,
	"volume-request-fits/a claim that another disk has":      taken,
	"volume-request-fits/a name that is no label":            taken,
	"volume-request-io-thread/scsi":                          taken,
	"volume-request-migration/while it migrates":             taken,
	"volume-request-source/nothing, on which KubeVirt fails": taken,
	"volume-request-unique/each twice":                       taken,
}

// taken is the answer for an object that is not rejected.
const taken = "admitted"

var _ = Describe("The rules", Ordered, ContinueOnFailure, func() {
	var usual []string
	var tried []string
	BeforeAll(func() {
		ownManager()
		usual = here.manager.args
		DeferCleanup(here.manager.restart, usual)
		Expect(assign()).To(ConsistOf(untried))
	})

	for _, s := range setups {
		It("say on an API server of their fixtures what they say in process, "+s.name, func() {
			here.manager.restart(append(slices.Clone(usual), s.flags...))
			for i := range s.tried {
				tried = append(tried, nameOfFixture(&s.tried[i]))
			}
			s.try()
		})
	}

	It("have hardly a fixture that is not tried", func() {
		Expect(len(tried)).To(BeNumerically(">=", atLeast))
		Expect(tried).To(ContainElements(slices.Collect(maps.Keys(otherwise))), "an exception of no fixture")
	})
})

// theGates switches all features, or leaves each as it is by default.
func theGates(value string) string {
	var out []string
	known := validation.KnownGates()
	for _, gate := range slices.Sorted(maps.Keys(known)) {
		out = append(out, string(gate)+"="+cmp.Or(value, strconv.FormatBool(known[gate])))
	}
	return strings.Join(out, ",")
}

// configOf is the configuration of a manager with these flags.
func configOf(flags []string) validation.Config {
	GinkgoHelper()
	var out validation.Config
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		switch name {
		case "mode":
			out.Addon = value == "addon"
			continue
		case "default-network-interface": // which is no matter of the rules
			continue
		}
		i := slices.IndexFunc(validation.Settings(), func(s validation.Setting) bool { return s.Name == name })
		Expect(i).To(BeNumerically(">=", 0), flag)
		if value == "" {
			value = "true"
		}
		Expect(validation.Settings()[i].Set(&out, value)).To(Succeed(), flag)
	}
	return out
}

// assign gives fixtures to setups and returns those that fit none.
func assign() (left []string) {
	GinkgoHelper()
	for _, s := range setups {
		s.config, s.tried = configOf(s.flags), nil
	}
	for _, fixtures := range validationtest.Fixtures(GinkgoTB()) {
		for _, f := range fixtures {
			if f.Old != nil {
				continue
			}
			if i := slices.IndexFunc(setups, func(s *setup) bool { return s.fits(&f) }); i >= 0 {
				setups[i].tried = append(setups[i].tried, f)
			} else {
				left = append(left, nameOfFixture(&f))
			}
		}
	}
	return left
}

func nameOfFixture(f *validationtest.Fixture) string { return f.Rule + "/" + f.Name }

// fits reports whether the fixture means the same under this setup as under its own.
func (s *setup) fits(f *validationtest.Fixture) bool {
	if f.Config.Addon != s.config.Addon || f.Config.Architecture != "" {
		return false
	}
	said := func(c *validation.Config) string {
		result := c.Validate(f.ExpandedVM(GinkgoTB()))
		return fmt.Sprint(result.Errors, result.Warnings)
	}
	return said(&f.Config) == said(&s.config)
}

// try sends every fixture to the API server, and compares.
func (s *setup) try() {
	GinkgoHelper()
	in := newStory()
	work := make(chan *validationtest.Fixture)
	var mu sync.Mutex
	var differ []string
	var all sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		all.Go(func() {
			defer GinkgoRecover()
			for f := range work {
				if d := in.difference(f); d != "" {
					mu.Lock()
					differ = append(differ, nameOfFixture(f)+": "+d)
					mu.Unlock()
				}
			}
		})
	}
	for i := range s.tried {
		work <- &s.tried[i]
	}
	close(work)
	all.Wait()
	GinkgoWriter.Printf("%d fixtures\n", len(s.tried))
	slices.Sort(differ)
	Expect(strings.Join(differ, "\n")).To(BeEmpty())
}

// difference is the unexpected part of an API server's answer to a fixture.
func (s *story) difference(f *validationtest.Fixture) string {
	got, expected := s.saidOf(f)
	part, listed := otherwise[nameOfFixture(f)]
	if !listed && !f.Config.Addon {
		part, listed = validationtest.Unrendered[nameOfFixture(f)]
	}
	if !listed && !f.Config.Addon && f.Verdict != "bad" && onlyPodsReject(f, got) {
		return "" // the rules admit it, and no pod can give it to a guest
	}
	switch {
	case !listed && expected, listed && !expected && strings.Contains(got, part):
		return ""
	case listed:
		return fmt.Sprintf("listed with %q, but said is: %s", part, got)
	}
	return got
}

// onlyPodsReject reports whether a VMI's fields that pods cannot give are all that is said.
func onlyPodsReject(f *validationtest.Fixture, said string) bool {
	m := f.ExpandedVM(GinkgoTB())
	if m.Spec == nil {
		return false
	}
	vmi := &kubevirtv1.VirtualMachineInstance{Spec: *m.Spec}
	vmi.Annotations = m.Meta.Annotations
	return len(domain.CheckPod(vmi)) > 0 && strings.Contains(said, "Forbidden: not supported: ")
}

// saidOf is what the API server says of a fixture, and whether its rule says the same.
func (s *story) saidOf(f *validationtest.Fixture) (said string, expected bool) {
	warned, err := s.send(f)
	says := func(text string) bool {
		return strings.HasSuffix(text, "("+f.Rule+")") && strings.Contains(text, strings.ReplaceAll(f.Says, "shop", s.ns))
	}
	if err == nil {
		warns := slices.ContainsFunc(warned, says)
		return fmt.Sprintf("%s, warnings are %q", taken, warned), f.Verdict != validationtest.Bad && warns == (f.Verdict == validationtest.Warned)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err.Error(), false
	}
	var texts, fields []string
	own := f.Verdict == validationtest.Bad
	for _, cause := range status.Status().Details.Causes {
		texts, fields = append(texts, cause.Field+": "+cause.Message), append(fields, cause.Field)
		own = own && says(cause.Message)
	}
	return strings.Join(texts, "; "), own && slices.Equal(fields, f.Fields)
}

// send asks the API server to create the machine of a fixture, in the story's namespace where the
// fixture means the machine's own.
func (s *story) send(f *validationtest.Fixture) (warned []string, rejected error) {
	raw := strings.ReplaceAll(string(f.Manifest(GinkgoTB())), `"namespace":"shop"`, `"namespace":"`+s.ns+`"`)
	sent := &unstructured.Unstructured{}
	Expect(sent.UnmarshalJSON([]byte(raw))).To(Succeed())
	if f.Config.Addon {
		giveDevices(sent)
	}
	var heard warnings
	_, err := s.as(heard.client(), sent.GetKind()).Create(here.ctx, sent, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return heard.texts, err
}

// giveDevices adds what the schema demands of every machine, and platform defaults add in
// standalone mode.
func giveDevices(machine object) {
	path := []string{"spec", "domain", "devices"}
	if machine.GetKind() == virtualMachine {
		path = []string{"spec", "template", "spec", "domain", "devices"}
	}
	if _, found, err := unstructured.NestedFieldNoCopy(machine.Object, path...); err == nil && !found {
		Expect(unstructured.SetNestedMap(machine.Object, map[string]any{}, path...)).To(Succeed())
	}
}
