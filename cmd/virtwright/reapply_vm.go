package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets/tree"
)

type reapplied struct {
	vm            types.NamespacedName
	before, after *unstructured.Unstructured
	changes       []fleet.Change
	err           error
}

func (r *reapplyCommand) each(ctx context.Context, config *rest.Config, chosen []types.NamespacedName, s streams) error {
	warnings := &vmWarnings{}
	config.WarningHandlerWithContext, config.WarningHandler = warnings, nil
	client, err := newClient(config, dynamic.NewForConfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	count := reapplyCount{others: map[string]int{}}
	inOrder(chosen, func(vm types.NamespacedName) reapplied {
		if ctx.Err() != nil {
			return reapplied{vm: vm, err: errInterrupted}
		}
		// After an interrupt, the command waits for responses to requests that were sent.
		return r.one(context.WithoutCancel(ctx), client.Resource(virtualMachines).Namespace(vm.Namespace), vm)
	}, func(_ types.NamespacedName, done reapplied) {
		switch {
		case errors.Is(done.err, errInterrupted):
			count.undone++
		case done.err != nil:
			fmt.Fprintf(s.err, "%s %s: %s\n", styleOf(s.err).paint(red, "Error:"), r.displayName(done.vm), done.err)
			if rejectsReapply(done.err) {
				count.rejected++
			} else {
				count.failed++
			}
		default:
			r.print(s.out, done)
			count.add(r.preset, done.changes)
		}
	})
	warnings.print(s.err)
	r.warnOfOthers(s.err, count.others)
	fmt.Fprintln(s.out, count.String()+r.dryRun.suffix())
	return count.err()
}

type reapplyCount struct {
	changed, unchanged, rejected, failed, undone int
	// others counts the VMs that other presets than the selected one changed, by preset.
	others map[string]int
}

func (c *reapplyCount) add(selected string, changes []fleet.Change) {
	if len(changes) == 0 {
		c.unchanged++
		return
	}
	c.changed++
	for by := range fieldsByPreset(changes) {
		if by != selected {
			c.others[by]++
		}
	}
}

// warnOfOthers warns that --preset selects VMs, but not changes: a reapply applies every preset.
func (r *reapplyCommand) warnOfOthers(out io.Writer, others map[string]int) {
	if r.preset == "" || r.only != "" {
		return
	}
	verb := "brought"
	if r.dryRun == dryRunServer {
		verb = "brings"
	}
	for _, by := range slices.Sorted(maps.Keys(others)) {
		fmt.Fprintf(out, "%s also %s changes of %s to %s; --only %s leaves them out\n", styleOf(out).paint(yellow, "Warning:"), verb, by, counted(others[by], "VM"), r.preset)
	}
}

// String formats the last line of the output.
func (c reapplyCount) String() string {
	text := fmt.Sprintf("reapplied %s: %d changed, %d unchanged", counted(c.changed+c.unchanged, "VM"), c.changed, c.unchanged)
	var rest []string
	for _, part := range []struct {
		count int
		what  string
	}{{c.rejected, "rejected"}, {c.failed, "failed"}, {c.undone, "not done"}} {
		if part.count > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", part.count, part.what))
		}
	}
	if len(rest) == 0 {
		return text
	}
	return text + "; " + strings.Join(rest, ", ")
}

func (c reapplyCount) err() error {
	switch {
	case c.failed+c.undone > 0:
		return errNotReapplied
	case c.rejected > 0:
		return errPrinted
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// errNotReapplied ends a command that has printed the errors.
var errNotReapplied = errors.New("some VMs were not reapplied")

// rejectsReapply reports whether the cluster rejected a reapply. A missing permission or a missing
// VM is a failure instead.
func rejectsReapply(err error) bool {
	return isRejection(err) && !apierrors.IsNotFound(err) && !lacksRight(err)
}

// lacksRight reports whether an API server's authorizer rejected a request, and not admission.
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

func (r *reapplyCommand) one(ctx context.Context, client dynamic.ResourceInterface, vm types.NamespacedName) reapplied {
	ctx = context.WithValue(ctx, vmKey{}, r.displayName(vm))
	before, err := client.Get(ctx, vm.Name, metav1.GetOptions{})
	if err != nil {
		return reapplied{vm: vm, err: err}
	}
	value := time.Now().UTC().Format(time.RFC3339Nano)
	if r.only != "" {
		value = v1alpha1.ReapplyOnlyPrefix + r.only + " " + value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationReapply: value}}})
	if err != nil {
		return reapplied{vm: vm, err: err}
	}
	options := metav1.PatchOptions{FieldManager: program}
	if r.dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := client.Patch(ctx, vm.Name, types.MergePatchType, patch, options)
	if err != nil {
		return reapplied{vm: vm, err: err}
	}
	changes, err := fleet.ReappliedChanges(before, after, fleet.NoUpdates)
	return reapplied{vm, before, after, changes, err}
}

func (r *reapplyCommand) displayName(vm types.NamespacedName) string {
	if r.everywhere {
		return "vm/" + vm.Name + " -n " + vm.Namespace
	}
	return "vm/" + vm.Name
}

func (r *reapplyCommand) print(out io.Writer, done reapplied) {
	text := "unchanged"
	if len(done.changes) > 0 {
		text = counted(len(done.changes), "field") + " changed"
	}
	if restartRequired(done.after) {
		text += "; restart required"
	}
	if len(done.changes) > 0 {
		text += ": " + changesByPreset(done.changes)
	}
	fmt.Fprintf(out, "%s: %s\n", r.displayName(done.vm), text)
	if r.dryRun == dryRunServer && len(done.changes) > 0 {
		fmt.Fprint(out, styleOf(out).difference(reapplyDiff(r.displayName(done.vm), fleet.Written(done.before), fleet.Written(done.after))))
	}
}

// changesByPreset lists each preset with the first of its fields.
func changesByPreset(changes []fleet.Change) string {
	const most = 3
	fields := fieldsByPreset(changes)
	var out []string
	for _, by := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, by+" ("+tree.List(fields[by], most)+")")
	}
	return strings.Join(out, ", ")
}

func fieldsByPreset(changes []fleet.Change) map[string][]string {
	out := map[string][]string{}
	for _, c := range changes {
		by := cmp.Or(c.Preset, "platform defaults")
		out[by] = append(out[by], c.Path)
	}
	return out
}

func restartRequired(vm *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(vm.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == string(kubevirtv1.VirtualMachineRestartRequired) && condition["status"] == string(metav1.ConditionTrue) {
			return true
		}
	}
	return false
}

func reapplyDiff(name string, before, after any) string {
	one, err := yamlOf(before)
	if err != nil {
		return err.Error()
	}
	other, err := yamlOf(after)
	if err != nil {
		return err.Error()
	}
	text, _ := unified(one, other, name+" (stored)", name+" (reapplied)") // writing to a buffer does not fail
	return text
}

type vmKey struct{}

// vmWarnings collects the warnings of an API server.
type vmWarnings struct {
	mu  sync.Mutex
	all warningGroups
}

// HandleWarningHeaderWithContext records a warning.
func (w *vmWarnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const warning = 299
	vm, _ := ctx.Value(vmKey{}).(string)
	if code != warning || text == "" || vm == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.add(vm, strings.TrimSpace(text))
}

// print prints each warning once, with the VMs that have it.
func (w *vmWarnings) print(out io.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.sort()
	for _, g := range w.all {
		fmt.Fprintf(out, "%s %s: %s\n", styleOf(out).paint(yellow, "Warning:"), g.about(), g.text)
	}
}

// warningGroups are warnings with the objects that have them.
type warningGroups []*warningGroup

type warningGroup struct {
	text    string
	objects []string
}

func (w *warningGroups) add(object, text string) {
	for _, g := range *w {
		if g.text == text {
			g.objects = append(g.objects, object)
			return
		}
	}
	*w = append(*w, &warningGroup{text, []string{object}})
}

// sort sorts objects, and groups by their first object.
func (w warningGroups) sort() {
	for _, g := range w {
		slices.Sort(g.objects)
	}
	slices.SortFunc(w, func(a, b *warningGroup) int {
		return cmp.Or(strings.Compare(a.objects[0], b.objects[0]), strings.Compare(a.text, b.text))
	})
}

// about names the first object, and counts the others.
func (g *warningGroup) about() string {
	return tree.List(g.objects, 1)
}
