package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// keeper is the field manager that created the objects.
const keeper = "keeper"

// A cell is one attack.
type cell struct {
	way
	change
	state
	by   *writer
	kind string

	ground *ground
	client dynamic.ResourceInterface
	// name is that of the machine.
	name string
	want verdict
}

// everyCell yields the cells of a state, also those that are absent.
func everyCell(in state) iter.Seq[*cell] {
	return func(yield func(*cell) bool) {
		for i := range writers {
			for _, kind := range both {
				for _, how := range ways {
					for _, what := range changes {
						if !yield(&cell{way: how, change: what, state: in, by: &writers[i], kind: kind}) {
							return
						}
					}
				}
			}
		}
	}
}

// absence says why a cell is not run; nothing for one that is.
func (c *cell) absence() string {
	for _, row := range absent {
		if row.is(c) {
			return row.why
		}
	}
	return ""
}

// judge returns the expected verdict and its reason.
func (c *cell) judge() string {
	for _, row := range verdicts {
		if row.when(c) {
			c.want = row.want
			return row.why
		}
	}
	return ""
}

// String says what happens in a cell.
func (c *cell) String() string {
	return fmt.Sprintf("%s: %s %s of a %s by %s", c.state.name, c.change.name, c.way.name, c.kind, c.by.name)
}

// stores reports whether the cell changes a machine that was there before, so that no other cell
// may use it.
func (c *cell) stores() bool { return !c.creates && !c.dry && c.want == admitted }

// now is the machine as it is.
func (c *cell) now() (object, error) {
	return c.ground.as(here.client, c.kind).Get(here.ctx, c.name, metav1.GetOptions{})
}

// changed is a machine after the change.
func (c *cell) changed(of object) object {
	return &unstructured.Unstructured{Object: with(of.Object, c.value(of), c.path...)}
}

func (c *cell) value(of object) any { return c.to(c.ground, part(of.Object, c.path...)) }

func (c *cell) dryRun() []string {
	if c.dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (c *cell) subresources() []string {
	if c.status {
		return []string{"status"}
	}
	return nil
}

func (c *cell) create() (object, error) {
	sent := c.changed(plain(c.kind, c.name))
	if c.version != "" {
		sent.SetAPIVersion("kubevirt.io/" + c.version)
	}
	return c.client.Create(here.ctx, sent, metav1.CreateOptions{DryRun: c.dryRun()})
}

func (c *cell) applyNew() (object, error) {
	return c.client.Apply(here.ctx, c.name, c.changed(plain(c.kind, c.name)), metav1.ApplyOptions{FieldManager: "attacker", Force: c.forces})
}

func (c *cell) put() (object, error) {
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	options := metav1.UpdateOptions{DryRun: c.dryRun()}
	if c.status {
		return c.client.UpdateStatus(here.ctx, c.changed(now), options)
	}
	return c.client.Update(here.ctx, c.changed(now), options)
}

func (c *cell) patchJSON() (object, error) {
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(now.Object)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(c.changed(now).Object)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil, err
	}
	return c.patch(types.JSONPatchType, operations)
}

func (c *cell) patchMerge() (object, error) {
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	patch := c.value(now)
	for _, name := range slices.Backward(c.path) {
		patch = map[string]any{name: patch}
	}
	return c.patch(types.MergePatchType, patch)
}

func (c *cell) patch(how types.PatchType, body any) (object, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.client.Patch(here.ctx, c.name, how, raw, metav1.PatchOptions{DryRun: c.dryRun()}, c.subresources()...)
}

// apply applies the part alone under a name of its own; or all that the keeper applied but what
// goes, under the keeper's.
func (c *cell) apply() (object, error) {
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	options := metav1.ApplyOptions{FieldManager: "attacker", Force: c.forces, DryRun: c.dryRun()}
	if c.removed {
		options.FieldManager = keeper
		return c.client.Apply(here.ctx, c.name, c.changed(c.ground.machine(c.kind, c.name)), options)
	}
	sent := &unstructured.Unstructured{Object: with(map[string]any{
		"apiVersion": now.GetAPIVersion(), "kind": c.kind, "metadata": map[string]any{"name": c.name},
	}, c.value(now), c.path...)}
	return c.client.Apply(here.ctx, c.name, sent, options)
}

// run attacks, and returns an error for an unexpected outcome.
func (c *cell) run() error {
	before, err := c.now()
	if c.creates {
		before = plain(c.kind, c.name)
	} else if err != nil {
		return fmt.Errorf("%s: cannot begin: %w", c, err)
	}
	got, err := c.send(c)
	if wrong := c.check(before, got, err); wrong != nil {
		return fmt.Errorf("%s: want %s: %w", c, c.want, wrong)
	}
	return nil
}

func (c *cell) check(before, got object, err error) error {
	switch c.want {
	case admitted, unchanged:
		if err != nil {
			return err
		}
		return c.checkDone(before, got)
	case rejected:
		return c.checkRejection(err)
	case conflicting:
		return because(err, http.StatusConflict, "conflict", keeper)
	case unknown:
		return because(err, http.StatusNotFound, "not found")
	case unconverted:
		return because(err, http.StatusInternalServerError, "conversion webhook")
	case unheard:
		return because(err, http.StatusInternalServerError, "failed calling webhook", ".admission.virtwright.dev")
	}
	return errors.New("the test has no check for this")
}

// checkDone compares the answer with the request.
func (c *cell) checkDone(before, got object) error {
	sent, is := c.value(before), part(got.Object, c.path...)
	if done := alike(sent, is); done != (c.want == admitted) {
		return fmt.Errorf("sent %v, got %v", sent, is)
	}
	if c.rule == "owner-references" {
		return nil
	}
	if now, was := got.GetOwnerReferences(), before.GetOwnerReferences(); !reflect.DeepEqual(now, was) {
		return fmt.Errorf("owner references were %v and are %v", was, now)
	}
	return nil
}

// checkRejection wants a rejection that says by whom, whom and why.
func (c *cell) checkRejection(err error) error {
	resource := resources[c.kind].Resource
	said := []string{"user " + c.by.effective() + " may not write this", "(" + c.guard() + ")"}
	if c.policies {
		said = append(said, "ValidatingAdmissionPolicy '"+resource+".protection.virtwright.dev'")
	} else {
		said = append(said, `admission webhook "`+resource+`.admission.virtwright.dev"`)
	}
	return because(err, http.StatusUnprocessableEntity, said...)
}

// guard is the ID of the rule that guards the part.
func (c *cell) guard() string {
	if c.rule == provenanceRule && c.kind == instance {
		return "instance-provenance"
	}
	return c.rule
}

// effective is the user as whom API servers see the writer.
func (w *writer) effective() string {
	if w.as != "" {
		return w.as
	}
	return w.user
}

// because wants an error with a code and parts of its message.
func because(err error, code int32, said ...string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("got %w", or(err, errors.New("no error")))
	}
	if status.Status().Code != code {
		return fmt.Errorf("got %d: %w", status.Status().Code, err)
	}
	for _, text := range said {
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("%q is missing: %w", text, err)
		}
	}
	return nil
}

func or(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}

// with is a copy of fields in which a value stands at a path; nil takes away what stands there.
func with(fields map[string]any, value any, path ...string) map[string]any {
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) > 1 {
		inner, _ := out[path[0]].(map[string]any)
		value = with(inner, value, path[1:]...)
	}
	if value == nil {
		delete(out, path[0])
	} else {
		out[path[0]] = value
	}
	return out
}

// part is what stands at a path; nil for nothing.
func part(fields map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(fields, path...)
	return value
}

// alike compares as JSON does, where nothing is as good as an empty list.
func alike(a, b any) bool {
	text := func(v any) string {
		if list, ok := v.([]any); ok && len(list) == 0 {
			v = nil
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return string(raw)
	}
	return text(a) == text(b)
}

// attack runs every cell, and then checks that shared objects have not changed.
func (g *ground) attack() {
	GinkgoHelper()
	var wrong []string
	var mu sync.Mutex
	var all sync.WaitGroup
	turns := make(chan struct{}, 8)
	for _, queue := range g.queues {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for _, c := range queue {
				err := c.run()
				c.release()
				if err != nil {
					mu.Lock()
					wrong = append(wrong, err.Error())
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	slices.Sort(wrong)
	AddReportEntry(fmt.Sprintf("%d cells", g.cells), g.tally())
	Expect(len(wrong)).To(BeZero(), "%d of %d cells are wrong:\n%s", len(wrong), g.cells, strings.Join(wrong[:min(len(wrong), 40)], "\n"))
	for _, was := range g.shared {
		now, err := g.as(here.client, was.GetKind()).Get(here.ctx, was.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		is, before := substance(now), substance(was)
		Expect(is).To(Equal(before), "a shared object has changed")
	}
}

// release lets a machine go that holds a finalizer of ours.
func (c *cell) release() {
	if c.rule == "reserved-finalizers" && c.want == admitted {
		_, err := c.ground.as(clientAs(collector), c.kind).Patch(here.ctx, c.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			GinkgoWriter.Printf("cannot release %s: %v\n", c.name, err)
		}
	}
}

// tally counts verdicts.
func (g *ground) tally() string {
	count := map[verdict]int{}
	for _, queue := range g.queues {
		for _, c := range queue {
			count[c.want]++
		}
	}
	var out []string
	for _, v := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%5d %s", count[v], v))
	}
	return strings.Join(out, "\n")
}
