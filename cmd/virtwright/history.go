package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/dynamic"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

const historyHelp = `List the revisions of a preset, with the fields that each changed. A revision is the preset in one
generation. virtwright keeps the last 10, and those that VMs still have.

--revision prints one as a manifest, with the present labels and annotations, which plan -f,
explain -f and kubectl replace -f read. --diff compares one with the present preset, or two with
each other.

Revisions of a cluster preset are in virtwright's namespace: to read them, you need the permission to
list controllerrevisions there, and in all namespaces unless you name it by -n.

Exit codes: 0 success, 2 wrong usage, or a revision or the preset does not exist.`

const historyExamples = `  # What changed, and when
  {{program}} history cluster/size-small

  # What would change if the preset were as in revision 2
  {{program}} history cluster/size-small --revision 2 | {{program}} plan -A -f -

  # Restore revision 2 of the preset; VMs keep their values until a reapply
  {{program}} history cluster/size-small --revision 2 | kubectl replace -f -`

type historyCommand struct {
	connection connection
	revision   int64
	printsOne  bool
	diff       []int64
}

func newHistory(shown string, s streams) *cobra.Command {
	h := &historyCommand{}
	c := &cobra.Command{
		Use: "history PRESET [--revision N | --diff N[,M]]", Short: "List the revisions of a preset of a cluster",
		Long: historyHelp, Example: strings.ReplaceAll(historyExamples, "{{program}}", shown),
		ValidArgsFunction: h.connection.completePresets,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one preset: NAME, or cluster/NAME")
			}
			h.printsOne = c.Flags().Changed("revision")
			return h.run(c.Context(), s, args[0])
		},
	}
	h.connection.declare(c)
	c.Flags().Lookup("namespace").Usage = "namespace of the preset (default: that of the context), or of virtwright for a cluster preset"
	c.Flags().Int64Var(&h.revision, "revision", 0, "print this revision as a manifest")
	c.Flags().Int64SliceVar(&h.diff, "diff", nil, "compare this revision with the present preset, or two revisions")
	c.MarkFlagsMutuallyExclusive("revision", "diff")
	return c
}

// A presetRevision is a preset in one generation.
type presetRevision struct {
	number  int64
	object  map[string]any
	created time.Time // zero for the present preset, if it is not kept
}

func (h *historyCommand) run(ctx context.Context, s streams, ref string) error {
	all, err := h.read(ctx, ref)
	if err != nil {
		return err
	}
	switch {
	case h.printsOne:
		one, err := revisionOf(all, ref, h.revision)
		if err != nil {
			return err
		}
		text, err := yamlOf(one.manifest())
		if err != nil {
			return err
		}
		_, err = s.out.Write(text)
		return err
	case len(h.diff) > 0:
		return printRevisionDiff(s, all, ref, h.diff)
	}
	return printHistory(s, all)
}

// read returns the revisions of a preset, oldest first. The last one is the present preset.
func (h *historyCommand) read(ctx context.Context, ref string) ([]presetRevision, error) {
	config, namespace, err := h.connection.config()
	if err != nil {
		return nil, err
	}
	client, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return nil, err
	}
	bare, isCluster := presets.SplitRef(ref)
	of, in := v1alpha1.GroupVersion.WithResource("virtualmachinepresets"), namespace
	if isCluster {
		of, in = v1alpha1.GroupVersion.WithResource("clustervirtualmachinepresets"), ""
		if *h.connection.flags.Namespace == "" {
			namespace = metav1.NamespaceAll
		}
	}
	preset, err := client.Resource(of).Namespace(in).Get(ctx, bare, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read preset %s: %w", ref, err)
	}
	list, err := client.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelPresetUID + "=" + string(preset.GetUID())})
	if apierrors.IsForbidden(err) && isCluster {
		err = fmt.Errorf("%w: they are in virtwright's namespace: name it with -n; the ClusterRole view, bound there, permits to list them", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the revisions of preset %s: %w", ref, err)
	}
	out := []presetRevision{{number: preset.GetGeneration(), object: preset.Object}}
	for i := range list.Items {
		item := &list.Items[i]
		number, _, _ := unstructured.NestedInt64(item.Object, "revision")
		data, _, _ := unstructured.NestedMap(item.Object, "data")
		if !isRevisionOf(preset, item.GetName(), number, metav1.GetControllerOf(item), data) {
			continue
		}
		if item.GetNamespace() != list.Items[0].GetNamespace() {
			return nil, fmt.Errorf("revisions of preset %s are in namespaces %s and %s: name virtwright's namespace with -n",
				ref, list.Items[0].GetNamespace(), item.GetNamespace())
		}
		data["metadata"] = authored(preset)
		if number == preset.GetGeneration() {
			out[0].created = item.GetCreationTimestamp().Time
		} else {
			out = append(out, presetRevision{number, data, item.GetCreationTimestamp().Time})
		}
	}
	slices.SortFunc(out, func(a, b presetRevision) int { return cmp.Compare(a.number, b.number) })
	return out, nil
}

// isRevisionOf reports whether a ControllerRevision is a generation of a preset.
func isRevisionOf(preset *unstructured.Unstructured, name string, number int64, owner *metav1.OwnerReference, data map[string]any) bool {
	of := &unstructured.Unstructured{Object: data}
	return name == fmt.Sprintf("preset-%s-%d", preset.GetUID(), number) && owner != nil && owner.UID == preset.GetUID() &&
		of.GetKind() == preset.GetKind() && of.GetName() == preset.GetName() && of.GetNamespace() == preset.GetNamespace()
}

// authored returns the metadata of a preset without what API servers and kubectl add.
func authored(preset *unstructured.Unstructured) map[string]any {
	meta, _, _ := unstructured.NestedMap(preset.Object, "metadata")
	for _, key := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		delete(meta, key)
	}
	annotations, _ := meta["annotations"].(map[string]any)
	if delete(annotations, corev1.LastAppliedConfigAnnotation); len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return meta
}

func revisionOf(all []presetRevision, ref string, number int64) (presetRevision, error) {
	var numbers []string
	for _, r := range all {
		if r.number == number {
			return r, nil
		}
		numbers = append(numbers, strconv.FormatInt(r.number, 10))
	}
	return presetRevision{}, fmt.Errorf("preset %s has no revision %d: there are %s", ref, number, strings.Join(numbers, ", "))
}

// manifest has the spec of the revision, with the labels and annotations of the present preset.
func (r presetRevision) manifest() map[string]any {
	from := &unstructured.Unstructured{Object: r.object}
	return map[string]any{"apiVersion": from.GetAPIVersion(), "kind": from.GetKind(), "metadata": authored(from), "spec": r.object["spec"]}
}

// compared is the manifest without the zero values that API servers add to presets, and that other
// revisions lack.
func (r presetRevision) compared() map[string]any {
	out := r.manifest()
	if p, err := r.preset(); err == nil {
		if same, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p); err == nil {
			out["spec"] = same["spec"]
		}
	}
	return out
}

func (r presetRevision) preset() (v1alpha1.Preset, error) {
	var p v1alpha1.Preset = &v1alpha1.ClusterVirtualMachinePreset{}
	if (&unstructured.Unstructured{Object: r.object}).GetNamespace() != "" {
		p = &v1alpha1.VirtualMachinePreset{}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.object, p); err != nil {
		return nil, fmt.Errorf("cannot read revision %d: %w", r.number, err)
	}
	return p, nil
}

func (r presetRevision) compile() (*presets.Compiled, error) {
	p, err := r.preset()
	if err != nil {
		return nil, err
	}
	compiled, problems := presets.Compile(p)
	return compiled, problems.ToAggregate()
}

func printRevisionDiff(s streams, all []presetRevision, ref string, numbers []int64) error {
	if len(numbers) == 1 {
		numbers = append(numbers, all[len(all)-1].number)
	}
	if len(numbers) != 2 {
		return errors.New("--diff: name one or two revisions")
	}
	var texts [2][]byte
	for i, number := range numbers {
		one, err := revisionOf(all, ref, number)
		if err != nil {
			return err
		}
		if texts[i], err = yamlOf(one.compared()); err != nil {
			return err
		}
	}
	text, err := unified(texts[0], texts[1], fmt.Sprintf("%s@%d", ref, numbers[0]), fmt.Sprintf("%s@%d", ref, numbers[1]))
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, styleOf(s.out).difference(text))
	return err
}

func printHistory(s streams, all []presetRevision) error {
	var rows [][]string
	var was *presets.Compiled
	for i, r := range all {
		age := "<unknown>"
		if !r.created.IsZero() {
			age = duration.HumanDuration(time.Since(r.created))
		}
		is, err := r.compile()
		changes := []string{"(first kept)"}
		switch {
		case err != nil:
			changes = []string{"invalid: " + err.Error()}
		case was != nil:
			changes = editTexts(fleet.PresetEdits(was, is))
		case i > 0:
			changes = []string{"valid again"}
		}
		rows = append(rows, []string{strconv.FormatInt(r.number, 10), age, changes[0]})
		for _, text := range changes[1:] {
			rows = append(rows, []string{"", "", text})
		}
		was = is
	}
	return printTable(s.out, []string{"REVISION", "AGE", "CHANGE"}, rows)
}

// editTexts has a line for each edit, and at most namedEdits.
func editTexts(edits []fleet.Edit) []string {
	var out []string
	for _, e := range edits[:min(len(edits), namedEdits)] {
		out = append(out, e.Field+": "+planValue(e.Before)+" → "+planValue(e.After))
	}
	if more := len(edits) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	if out == nil {
		return []string{"no effect"}
	}
	return out
}
