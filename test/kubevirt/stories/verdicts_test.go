package stories

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// silentFile has parts of messages with which KubeVirt rejects objects that mode addon says nothing
// about, each with a reason. A person keeps it.
const silentFile = "testdata/silent.txt"

// endless is a page size for which virt-api of KubeVirt 1.9 computes for minutes.
const endless = "1e-99999999"

// A question is an object, and what both say about its creation.
type question struct {
	name     string
	object   map[string]any
	kubevirt error
	// ours has the problems; empty if there are none. warned says that there are warnings.
	ours   string
	warned bool
}

var _ = Describe("A verdict of mode addon", func() {
	It("is that of KubeVirt for the fixtures of each rule", func() { judged(fixtures()) })

	It("is that of KubeVirt for generated VMs", func() { judged(generated(fixtures(), 1500)) })

	It("is that of KubeVirt for manifests of other people", Label(notReported), func() {
		corpus := os.Getenv(corpusVariable)
		if corpus == "" {
			Skip(corpusVariable + " is not set")
		}
		files, err := filepath.Glob(filepath.Join(corpus, "*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var questions []question
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for _, object := range documents(content) {
				if kind := object.GetKind(); kind == "VirtualMachine" || kind == "VirtualMachineInstance" {
					questions = append(questions, question{name: filepath.Base(file), object: object.Object})
				}
			}
		}
		judged(questions)
	})
})

// judged asks both, and expects virtwright validate --mode addon to reject or warn of what KubeVirt
// rejects, and to reject nothing else.
func judged(questions []question) {
	GinkgoHelper()
	for i := range questions {
		q := &questions[i]
		delete(q.object, "status")
		q.object["metadata"].(map[string]any)["namespace"] = fmt.Sprintf("question-%d", i) // all are in one file
	}
	askKubeVirt(questions)
	askVirtwright(questions)
	intended := reasons()
	var wrong, silent []string
	rejected := 0
	for i := range questions {
		q := &questions[i]
		if q.kubevirt != nil {
			rejected++
		}
		switch {
		case q.kubevirt == nil && q.ours != "":
			wrong = append(wrong, q.name+": "+q.ours)
		case q.kubevirt != nil && q.ours == "" && !q.warned && !slices.ContainsFunc(intended, func(part string) bool { return strings.Contains(q.kubevirt.Error(), part) }):
			silent = append(silent, q.name+": "+q.kubevirt.Error())
		}
	}
	AddReportEntry(subject, fmt.Sprintf("%d objects, %d rejected by KubeVirt", len(questions), rejected))
	Expect(strings.Join(wrong, "\n")).To(BeEmpty(), "KubeVirt admits these")
	Expect(strings.Join(silent, "\n")).To(BeEmpty(), "KubeVirt rejects these, and virtwright says nothing")
}

// askVirtwright runs virtwright validate --mode addon once for all objects.
func askVirtwright(questions []question) {
	GinkgoHelper()
	var text bytes.Buffer
	for i := range questions {
		raw, err := yaml.Marshal(questions[i].object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&text, "---\n%s", raw)
	}
	file := filepath.Join(GinkgoT().TempDir(), "objects.yaml")
	Expect(os.WriteFile(file, text.Bytes(), 0o600)).To(Succeed())
	out, _ := exec.CommandContext(here.Context(), installation.Program(GinkgoTB(), installation.CLI), "validate", "--mode", "addon", "-o", "json", "-f", file).Output()
	var report struct {
		Objects []struct {
			Rejected bool                              `json:"rejected"`
			Problems []struct{ Field, Message string } `json:"problems"`
			Warnings []string                          `json:"warnings"`
		} `json:"objects"`
	}
	Expect(json.Unmarshal(out, &report)).To(Succeed(), string(out))
	Expect(report.Objects).To(HaveLen(len(questions)))
	for i, answer := range report.Objects {
		if answer.Rejected {
			questions[i].ours = fmt.Sprint(answer.Problems)
		}
		// Mode addon warns where it cannot know the verdict, as of a VM with an instancetype.
		// Most VMs of fixtures boot nothing.
		questions[i].warned = slices.ContainsFunc(answer.Warnings, func(w string) bool { return !strings.Contains(w, "(bootable-device)") })
	}
}

// fixtures are the creates of KubeVirt's default configuration.
func fixtures() []question {
	GinkgoHelper()
	var out []question
	all := validationtest.Fixtures(GinkgoTB())
	for _, rule := range slices.Sorted(maps.Keys(all)) {
		for i := range all[rule] {
			f := &all[rule][i]
			config := f.Config
			config.Addon = false // a fixture may be about mode addon
			if f.Old != nil || len(f.Gates) > 0 || !reflect.DeepEqual(config, validation.Config{Gates: f.Gates}) {
				continue
			}
			q := question{name: f.Rule + "/" + f.Name}
			manifest := f.Manifest(GinkgoTB())
			if bytes.Contains(manifest, []byte(endless)) {
				continue
			}
			Expect(json.Unmarshal(manifest, &q.object)).To(Succeed())
			if owners, _, _ := unstructured.NestedFieldNoCopy(q.object, "metadata", "ownerReferences"); owners == nil {
				out = append(out, q)
			}
		}
	}
	return out
}

// generated puts parts of some VMs into others. The seed is fixed.
func generated(from []question, count int) []question {
	random := rand.New(rand.NewPCG(3, 4))
	from = slices.DeleteFunc(from, func(q question) bool { return q.object["kind"] != "VirtualMachine" })
	parts := [][]string{
		{"spec", "template", "spec", "domain", "cpu"}, {"spec", "template", "spec", "domain", "memory"}, {"spec", "template", "spec", "domain", "features"},
		{"spec", "template", "spec", "domain", "firmware"}, {"spec", "template", "spec", "domain", "clock"}, {"spec", "template", "spec", "domain", "resources"},
		{"spec", "template", "spec", "domain", "devices"}, {"spec", "template", "spec", "networks"}, {"spec", "template", "spec", "volumes"},
		{"spec", "template", "spec", "livenessProbe"}, {"spec", "template", "spec", "affinity"}, {"spec", "dataVolumeTemplates"}, {"spec", "instancetype"},
	}
	var out []question
	for i := range count {
		object := runtime.DeepCopyJSON(from[random.IntN(len(from))].object)
		for range 1 + random.IntN(3) {
			other, path := from[random.IntN(len(from))].object, parts[random.IntN(len(parts))]
			if part, found, _ := unstructured.NestedFieldCopy(other, path...); found {
				_ = unstructured.SetNestedField(object, part, path...) // fails where the object has a wrong type
			}
		}
		out = append(out, question{name: fmt.Sprintf("generated %d", i), object: object})
	}
	return out
}

// askKubeVirt creates objects in a dry run where KubeVirt alone decides. They have devices, as
// virtwright sees to.
func askKubeVirt(questions []question) {
	GinkgoHelper()
	inParallel(questions, func(i int, q question) {
		object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(q.object)}
		object.SetNamespace(excluded)
		domain := []string{"spec", "template", "spec", "domain"}
		if object.GetKind() == "VirtualMachineInstance" {
			domain = []string{"spec", "domain"}
		}
		template, _, _ := unstructured.NestedFieldNoCopy(object.Object, domain[:len(domain)-2]...)
		if devices, _, err := unstructured.NestedFieldNoCopy(object.Object, append(domain, "devices")...); template != nil && devices == nil && err == nil {
			_ = unstructured.SetNestedMap(object.Object, map[string]any{}, append(domain, "devices")...)
		}
		questions[i].kubevirt = here.Objects.Create(here.Context(), object, client.DryRunAll)
	})
}

// reasons returns the parts of messages in silentFile. Each line has one, and why it is intended.
func reasons() []string {
	GinkgoHelper()
	file, err := os.Open(silentFile)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var out []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		part, reason, ok := strings.Cut(lines.Text(), "\t")
		Expect(ok && reason != "").To(BeTrue(), lines.Text())
		out = append(out, part)
	}
	return out
}
