package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

type reapplied struct {
	vm            types.NamespacedName
	before, after *unstructured.Unstructured
	err           error
}

func (r *reapplyCommand) each(ctx context.Context, config *rest.Config, chosen []types.NamespacedName, s streams) error {
	client, err := newClient(config, dynamic.NewForConfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	count := reapplyCount{}
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
			if isRefusal(done.err) {
				count.refused++
			} else {
				count.failed++
			}
		case r.print(s.out, done) > 0:
			count.changed++
		default:
			count.unchanged++
		}
	})
	fmt.Fprintln(s.out, count.String()+inDryRun(r.dryRun == dryRunServer))
	return count.err()
}

type reapplyCount struct{ changed, unchanged, refused, failed, undone int }

// String formats the last line of the output.
func (c reapplyCount) String() string {
	text := fmt.Sprintf("reapplied %s: %d changed, %d unchanged", counted(c.changed+c.unchanged, "VM"), c.changed, c.unchanged)
	var rest []string
	for _, part := range []struct {
		count int
		what  string
	}{{c.refused, "rejected"}, {c.failed, "failed"}, {c.undone, "not done"}} {
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
	case c.refused > 0:
		return errPrinted
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// errNotReapplied ends a command that has printed the errors.
var errNotReapplied = errors.New("some VMs were not reapplied")

// A missing permission or a missing VM is a failure, not a rejection of the reapply.
func isRefusal(err error) bool {
	lacksRight := apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
	return isRejection(err) && !apierrors.IsNotFound(err) && !lacksRight
}

func (r *reapplyCommand) one(ctx context.Context, client dynamic.ResourceInterface, vm types.NamespacedName) reapplied {
	ctx = context.WithValue(ctx, vmKey{}, r.displayName(vm))
	before, err := client.Get(ctx, vm.Name, metav1.GetOptions{})
	if err != nil {
		return reapplied{vm: vm, err: err}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		v1alpha1.AnnotationReapply: time.Now().UTC().Format(time.RFC3339Nano),
	}}})
	if err != nil {
		return reapplied{vm: vm, err: err}
	}
	options := metav1.PatchOptions{FieldManager: program}
	if r.dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := client.Patch(ctx, vm.Name, types.MergePatchType, patch, options)
	return reapplied{vm, before, after, err}
}

func (r *reapplyCommand) displayName(vm types.NamespacedName) string {
	if r.everywhere {
		return "vm/" + vm.Name + " -n " + vm.Namespace
	}
	return "vm/" + vm.Name
}

func (r *reapplyCommand) print(out io.Writer, done reapplied) int {
	before, after := written(done.before), written(done.after)
	changed := differences(before, after)
	text := "unchanged"
	if changed > 0 {
		text = counted(changed, "field") + " changed"
	}
	if restartRequired(done.after) {
		text += "; restart required"
	}
	fmt.Fprintf(out, "%s: %s\n", r.displayName(done.vm), text)
	if r.dryRun == dryRunServer && changed > 0 {
		fmt.Fprint(out, styleOf(out).difference(reapplyDiff(r.displayName(done.vm), before, after)))
	}
	return changed
}

func written(vm *unstructured.Unstructured) map[string]any {
	annotations := vm.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationProvenance)
	delete(annotations, v1alpha1.AnnotationReapply)
	meta := map[string]any{}
	for key, values := range map[string]map[string]string{"annotations": annotations, "labels": vm.GetLabels()} {
		if len(values) > 0 {
			meta[key] = values
		}
	}
	return map[string]any{"metadata": meta, "spec": vm.Object["spec"]}
}

// A list of scalars or of a different length is one leaf.
func differences(a, b any) int {
	one, isMap := members(a)
	other, isToo := members(b)
	if !isMap && !isToo {
		if reflect.DeepEqual(a, b) {
			return 0
		}
		return 1
	}
	count := 0
	for key := range one {
		count += differences(one[key], other[key])
	}
	for key := range other {
		if _, both := one[key]; !both {
			count += differences(nil, other[key])
		}
	}
	return count
}

func members(value any) (map[string]any, bool) {
	switch value := value.(type) {
	case map[string]any:
		return value, len(value) > 0
	case map[string]string:
		out := make(map[string]any, len(value))
		for key, text := range value {
			out[key] = text
		}
		return out, len(out) > 0
	case []any:
		out := make(map[string]any, len(value))
		for i, element := range value {
			out[fmt.Sprint(i)] = element
		}
		return out, len(out) > 0
	}
	return nil, false
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

type vmWarnings struct{ out io.Writer }

// HandleWarningHeaderWithContext prints a warning.
func (w vmWarnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const warning = 299
	vm, _ := ctx.Value(vmKey{}).(string)
	if code == warning && text != "" && vm != "" {
		fmt.Fprintf(w.out, "%s %s: %s\n", styleOf(w.out).paint(yellow, "Warning:"), vm, strings.TrimSpace(text))
	}
}
