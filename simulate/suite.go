package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// goldenExtension keeps golden files from being read as manifests.
const goldenExtension = ".golden"

// kindSuite is supported only by this program, not by clusters.
const kindSuite = "VirtwrightTest"

// A Suite is a VirtwrightTest: presets, and test cases with VMs.
type Suite struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	// Files are files and folders relative to the suite; default: the folder of the suite.
	Files []string `json:"files"`
	// Objects are additional inline objects.
	Objects []json.RawMessage `json:"objects"`
	// Mode is standalone or addon. Default: the mode of the command.
	Mode  string `json:"mode"`
	Cases []Case `json:"cases"`

	Where manifest.Position `json:"-"`
	// given, unless nil, are used instead of files.
	given []manifest.Object
}

// A Case is a VM with the expected result.
type Case struct {
	Name string `json:"name"`
	Step
	// Before is how the VM was created. The case updates it.
	Before *Step `json:"before"`
	// Reapply requests a reapply of presets.
	Reapply bool `json:"reapply"`
	// CurrentModes keeps the modes of presets. By default, Warn and Audit presets are enforced.
	CurrentModes bool        `json:"currentModes"`
	Expect       Expectation `json:"expect"`
}

// A Step creates or updates the VM of a case.
type Step struct {
	// VM is by default a VirtualMachine. Alternatively, VMFile names a file.
	VM     map[string]any `json:"vm"`
	VMFile string         `json:"vmFile"`
	// Objects that exist only in this step.
	Objects []json.RawMessage `json:"objects"`
	// Now is the time at which exceptions are evaluated; default: the current time.
	Now string `json:"now"`

	vm manifest.Object
}

// An Expectation is the expected result of a case.
type Expectation struct {
	// VM is a part of the stored VM. VMI is a part of the launched VMI.
	VM  map[string]any `json:"vm"`
	VMI map[string]any `json:"vmi"`
	// Absent are paths that the stored VM must not have.
	Absent []string `json:"absent"`
	// Golden is a file with the complete stored VM.
	Golden string `json:"golden"`
	// Rejected has parts of the messages with which the VM, or its VMI at the start, is rejected.
	Rejected []string `json:"rejected"`
	// Warnings has parts of all warnings; nil accepts any.
	Warnings []string `json:"warnings"`
}

// Suites decodes the valid suites among objects. Their presets are the given objects; nil reads the
// files that they name. The error joins the problems of the others, each a
// *manifest.DocumentError.
func Suites(objects, given []manifest.Object) ([]*Suite, error) {
	var problems []error
	objects = slices.DeleteFunc(slices.Clone(objects), func(o manifest.Object) bool {
		if !isSuite(o) && (strings.EqualFold(o.Kind, kindSuite) || spelling.Nearest(o.Kind, slices.Values([]string{kindSuite})) != "") {
			problems = append(problems, &manifest.DocumentError{Where: o.Where, Message: fmt.Sprintf("unsupported kind %s of %s: use %s of %s/v1alpha1", o.Kind, o.APIVersion, kindSuite, virtwrightGroup)})
		}
		return !isSuite(o)
	})
	var out []*Suite
	first := map[string]manifest.Position{}
	for _, d := range manifest.Parallel(objects, func(o manifest.Object) result[*Suite] {
		s, err := newSuite(o, given)
		return result[*Suite]{s, err}
	}) {
		if d.err != nil {
			problems = append(problems, d.err)
			continue
		}
		key := d.of.Where.File + "\x00" + d.of.Metadata.Name
		if at, again := first[key]; again {
			problems = append(problems, &manifest.DocumentError{Where: d.of.Where, Message: fmt.Sprintf("%s: metadata.name: Duplicate value: %q, which is also in %s", kindSuite, d.of.Metadata.Name, at)})
			continue
		}
		first[key] = d.of.Where
		out = append(out, d.of)
	}
	return out, errors.Join(problems...)
}

func isSuite(o manifest.Object) bool {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return o.Kind == kindSuite && group == virtwrightGroup
}

func newSuite(o manifest.Object, given []manifest.Object) (*Suite, error) {
	s := &Suite{Where: o.Where, given: given}
	problems := s.decode(o.JSON)
	if len(problems) == 0 {
		problems = s.check()
	}
	names := map[string]bool{}
	for i := range s.Cases {
		c, at := &s.Cases[i], field.NewPath("cases").Index(i)
		if names[c.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
		problems = append(problems, c.check(at)...)
		if wrong := s.readVMs(c, at); len(wrong) > 0 {
			problems = append(problems, wrong...)
			continue
		}
		problems = append(problems, c.Expect.check(presets.Kind(c.vm.Kind), at.Child("expect"))...)
	}
	if len(problems) == 0 {
		return s, nil
	}
	lines := []string{strings.TrimSpace(kindSuite+" "+s.Metadata.Name) + " is invalid:"}
	for _, p := range problemsOf(problems) {
		lines = append(lines, p.String())
	}
	return nil, &manifest.DocumentError{Where: s.Where, Message: strings.Join(lines, "\n  ")}
}

func (s *Suite) check() field.ErrorList {
	var out field.ErrorList
	if s.APIVersion != virtwrightGroup+"/v1alpha1" {
		out = append(out, field.NotSupported(field.NewPath("apiVersion"), s.APIVersion, []string{virtwrightGroup + "/v1alpha1"}))
	}
	if s.Metadata.Name == "" {
		out = append(out, field.Required(field.NewPath("metadata", "name"), ""))
	}
	for i, file := range s.Files {
		if _, err := os.Stat(s.path(file)); err != nil && s.given == nil {
			out = append(out, field.Invalid(field.NewPath("files").Index(i), file, "cannot be read: "+manifest.Reason(err).Error()))
		}
	}
	if modes := []string{"standalone", "addon"}; s.Mode != "" && !slices.Contains(modes, s.Mode) {
		out = append(out, field.NotSupported(field.NewPath("mode"), s.Mode, modes))
	}
	if len(s.Cases) == 0 {
		out = append(out, field.Required(field.NewPath("cases"), ""))
	}
	return out
}

func (c *Case) check(at *field.Path) field.ErrorList {
	var out field.ErrorList
	if c.Name == "" {
		out = append(out, field.Required(at.Child("name"), ""))
	}
	if c.VM == nil && c.VMFile == "" {
		out = append(out, field.Required(at.Child("vm"), "set vm or vmFile"))
	}
	out = append(out, c.Step.check(at)...)
	if c.Before != nil {
		out = append(out, c.Before.check(at.Child("before"))...)
	}
	return out
}

func (s *Step) check(at *field.Path) field.ErrorList {
	var out field.ErrorList
	if s.VM != nil && s.VMFile != "" {
		out = append(out, field.Forbidden(at.Child("vmFile"), "vm and vmFile are mutually exclusive"))
	}
	if _, err := time.Parse(time.RFC3339, s.Now); s.Now != "" && err != nil {
		out = append(out, field.Invalid(at.Child("now"), s.Now, "must be a time such as 2026-01-31T12:00:00Z"))
	}
	return out
}

func (e *Expectation) check(kind presets.Kind, at *field.Path) field.ErrorList {
	var out field.ErrorList
	if e.Rejected != nil {
		if len(e.Rejected) == 0 || slices.Contains(e.Rejected, "") {
			out = append(out, field.Required(at.Child("rejected"), "set a part of the message"))
		}
		for name, given := range map[string]bool{"vm": e.VM != nil, "vmi": e.VMI != nil, "absent": e.Absent != nil, "golden": e.Golden != ""} {
			if given {
				out = append(out, field.Forbidden(at.Child(name), "a rejected VM is not stored"))
			}
		}
	}
	if slices.Contains(e.Warnings, "") {
		out = append(out, field.Required(at.Child("warnings"), "set a part of the message; [] expects no warning"))
	}
	if e.Golden != "" && filepath.Ext(e.Golden) != goldenExtension {
		out = append(out, field.Invalid(at.Child("golden"), e.Golden, "must end with "+goldenExtension+", so that --update overwrites no manifest"))
	}
	for i, text := range e.Absent {
		if err := checkAbsent(text); err != nil {
			out = append(out, field.Invalid(at.Child("absent").Index(i), text, err.Error()))
		}
	}
	if e.VM != nil && kind == presets.VirtualMachineInstance {
		return append(out, field.Forbidden(at.Child("vm"), "the case creates a VirtualMachineInstance: use vmi"))
	}
	out = append(out, beneath(at.Child("vm"), fleet.CheckExpected(presets.VirtualMachine, e.VM))...)
	return append(out, beneath(at.Child("vmi"), fleet.CheckExpected(presets.VirtualMachineInstance, e.VMI))...)
}

func checkAbsent(text string) error {
	path, err := presets.ParsePath(text)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(path, func(seg provenance.Segment) bool { return seg.Kind == provenance.AnyElement }):
		return errors.New("* is not supported: name the element")
	case path.HasPrefix(provenance.Of("metadata", "annotations", v1alpha1.AnnotationProvenance)):
		return errors.New("the record of origins is not compared")
	}
	return nil
}

func beneath(at *field.Path, problems field.ErrorList) field.ErrorList {
	for _, p := range problems {
		p.Field = at.Child(p.Field).String()
	}
	return problems
}

func (s *Suite) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.Where.File), name)
}

func (s *Suite) paths() []string {
	files := s.Files
	if files == nil {
		files = []string{"."}
	}
	out := make([]string, 0, len(files))
	for _, f := range files {
		out = append(out, s.path(f))
	}
	return out
}

// sourceKey is equal for suites with the same sources.
func (s *Suite) sourceKey() string {
	if len(s.Objects) > 0 {
		return s.Where.String()
	}
	return s.Mode + "\x00" + strings.Join(s.paths(), "\x00")
}

func (s *Suite) sources(currentModes bool) ([]manifest.Object, error) {
	objects, err := slices.Clone(s.given), error(nil)
	if s.given == nil {
		objects, err = manifest.Read(strings.NewReader(""), s.paths(), true)
	}
	objects = slices.DeleteFunc(objects, func(o manifest.Object) bool { return roleOf(o) == vmOrVMI || isSuite(o) })
	objects, unread := inModes(objects, currentModes)
	inline, wrong := s.inline(s.Objects, currentModes)
	return append(objects, inline...), errors.Join(err, unread, wrong)
}

func (s *Suite) inline(raw []json.RawMessage, currentModes bool) ([]manifest.Object, error) {
	var out []manifest.Object
	for i, r := range raw {
		objects, err := manifest.Inline(r, s.Where)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		out = append(out, objects...)
	}
	return inModes(out, currentModes)
}

// inModes enforces presets in mode Warn and Audit, because tests come before enforcement.
func inModes(objects []manifest.Object, current bool) ([]manifest.Object, error) {
	if current {
		return objects, nil
	}
	return Enforce(objects)
}

// golden reads a golden file; nil if it does not exist.
func (s *Suite) golden(name string) (map[string]any, error) {
	if _, missing := os.Stat(s.path(name)); errors.Is(missing, os.ErrNotExist) {
		return nil, nil
	}
	objects, err := manifest.Read(strings.NewReader(""), []string{s.path(name)}, false)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%s must contain exactly one object, but has %d", s.path(name), len(objects))
	}
	var out map[string]any
	return out, kjson.UnmarshalCaseSensitivePreserveInts(objects[0].JSON, &out)
}
