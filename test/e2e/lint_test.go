package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// lintDefects are files with one defect each; the command's own test says which.
const lintDefects = "../../cmd/virtwright/testdata/lint/defects/*.yaml"

type lintWitness struct {
	NamespaceLabels      map[string]string `json:"namespaceLabels"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations"`
	Object               map[string]any    `json:"object"`
}

type lintFinding struct {
	ID, Preset, Other string
	Witness           *lintWitness
}

var _ = Describe("A witness that lint names", func() {
	files, err := filepath.Glob(lintDefects)
	if err != nil || len(files) == 0 {
		panic("no defects")
	}
	for _, file := range files {
		It("shows the disagreement when it is created: "+filepath.Base(file), func() {
			s := newStory()
			out, _ := exec.CommandContext(here.ctx, here.programs+"/virtwright", "lint", "-f", file, "-o", "json").Output() // it exits with 1
			var report struct{ Findings []lintFinding }
			Expect(json.Unmarshal(out, &report)).To(Succeed(), string(out))
			found := slices.DeleteFunc(report.Findings, func(f lintFinding) bool {
				return f.Witness == nil || f.ID != "VW301" && f.ID != "VW303"
			})
			if len(found) == 0 {
				Skip("this defect needs no witness")
			}
			presets := withoutNamespaces(file)
			DeferCleanup(func() {
				_, stderr, err := here.kubectl(presets, "delete", "--ignore-not-found", "-f", "-")
				Expect(err).NotTo(HaveOccurred(), stderr)
			})
			for _, f := range found {
				s.makeWitnessNamespace(f.Witness)
			}
			for _, namespace := range []string{"shop", "lab"} { // those of namespaced presets
				s.makeWitnessNamespace(&lintWitness{Object: map[string]any{"metadata": map[string]any{"namespace": namespace}}})
			}
			for _, args := range [][]string{{"create", "-f", "-"}, {"wait", "-f", "-", "--for=condition=Ready", "--timeout=60s"}} {
				_, stderr, err := here.kubectl(presets, args...)
				Expect(err).NotTo(HaveOccurred(), stderr)
			}
			for _, f := range found {
				raw, err := json.Marshal(f.Witness.Object)
				Expect(err).NotTo(HaveOccurred())
				_, warnings, failed := here.kubectl(string(raw), "create", "--dry-run=server", "-f", "-")
				if f.ID == "VW303" {
					Expect(failed).To(HaveOccurred(), file)
				} else {
					Expect(failed).NotTo(HaveOccurred(), warnings)
					Expect(warnings).To(ContainSubstring("at the same priority"), file)
				}
				Expect(warnings).To(Or(ContainSubstring(f.Other), ContainSubstring(f.Preset)), file)
			}
		})
	}
})

// withoutNamespaces is the YAML of a file without its namespaces, which a witness labels.
func withoutNamespaces(file string) string {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	documents := slices.DeleteFunc(strings.Split(string(content), "\n---\n"), func(d string) bool { return strings.Contains(d, "kind: Namespace") })
	return strings.Join(documents, "\n---\n")
}

// makeWitnessNamespace makes the namespace of a witness, with what the presets ask of it. It takes
// that away after the story; the namespace stays.
func (s *story) makeWitnessNamespace(w *lintWitness) {
	GinkgoHelper()
	metadata, _ := w.Object["metadata"].(map[string]any)
	name, _ := metadata["namespace"].(string)
	if _, stderr, err := s.tryKubectl("", "create", "namespace", name); err != nil {
		Expect(stderr).To(ContainSubstring("already exists"))
	}
	put := func(verb string, values map[string]string) {
		for key, value := range values {
			if key == "kubernetes.io/metadata.name" {
				continue
			}
			s.kubectl("", verb, "namespace", name, key+"="+value, "--overwrite")
			DeferCleanup(func() { s.kubectl("", verb, "namespace", name, key+"-") })
		}
	}
	put("label", w.NamespaceLabels)
	put("annotate", w.NamespaceAnnotations)
}
