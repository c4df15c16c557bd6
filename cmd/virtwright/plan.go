package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/kustomize"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

const planHelp = `Show the effects of a change of presets on VMs before you apply it: VMs that would be created
differently or rejected, presets that would conflict, and running VMs that would need a restart.

The presets of -f are compared with those of the cluster, of a folder (--base-dir), or of a git
revision of the same files (--base-ref). The VMs are those of the cluster and those of -f. -n limits
them to a namespace, and -l selects them by label. With --base-dir and --base-ref, a cluster is read
only if you select one (--live, -A, --context).

Presets change a stored VM only when it is reapplied (virtwright.dev/reapply). The plan compares the
VM after a reapply with the old presets and after a reapply with the new presets, so that existing
differences are ignored.

Exit codes: 0 no VM changes, 1 something changes, 2 wrong usage or input, 4 a VM would be rejected,
or presets would conflict.`

const planExamples = `  # Before kubectl apply -f presets/
  {{program}} plan -f presets/

  # In a pull request, without a cluster, as a comment
  {{program}} plan -f presets/ -f vms/ --base-ref origin/main -o markdown

  # The effect of deleting presets, VM by VM
  {{program}} plan -f presets/ --prune -o diff`

type planCommand struct {
	settings
	baseDir, baseRef string
	prune            bool
	dryRun           string
	// inNamespace is true if only the VMs of -n are compared.
	inNamespace bool
}

func newPlan(shown string, s streams) *cobra.Command {
	o := &planCommand{}
	o.withVMs = true
	c := &cobra.Command{
		Use:   "plan -f FILE... [--base-dir FOLDER | --base-ref REVISION]",
		Short: "Show the effects of a change of presets on VMs", Long: planHelp, Example: planExamples, Args: flagsForFiles,
	}
	run := func(ctx context.Context, _ []string) error { return o.run(ctx, s) }
	o.setUp(c, shown, []string{"table", "diff", "markdown", "json"}, run, o.checkBase)
	o.declareValidation(c)
	c.Flags().StringVar(&o.baseDir, "base-dir", "", "folder with the old presets")
	c.Flags().StringVar(&o.baseRef, "base-ref", "", "git revision of -f with the old presets")
	c.Flags().BoolVar(&o.prune, "prune", false, "also plan the deletion of presets of the cluster that are not in -f")
	c.Flags().StringVar(&o.dryRun, "dry-run", "none", "none; or server: also validate the presets and each changed VM by a dry run of the API server")
	offer(c, "dry-run", []string{"none", "server"})
	return c
}

func (o *planCommand) checkBase(c *cobra.Command) error {
	problems := []error{oneOf("--dry-run", o.dryRun, "none", "server")}
	fromFiles := o.baseDir != "" || o.baseRef != ""
	if len(o.files) == 0 && o.kustomize == "" {
		problems = append(problems, errors.New("-f is required: name files or folders with the new presets"))
	}
	if o.baseDir != "" && o.baseRef != "" {
		problems = append(problems, errors.New("--base-dir and --base-ref are mutually exclusive"))
	}
	if o.baseRef != "" && o.kustomize != "" {
		problems = append(problems, errors.New("--base-ref and -k are mutually exclusive: use --base-dir with another checkout"))
	}
	if o.prune && fromFiles {
		problems = append(problems, errors.New("--prune cannot be used with --base-dir and --base-ref, which always plan the deletion of missing presets"))
	}
	o.allowMissing = o.baseRef != "" // deleted files delete their presets
	o.forceLive = o.forceLive || !fromFiles || o.dryRun == "server"
	o.inNamespace = c.Flags().Changed("namespace") && !o.all
	o.all = o.all || o.live(nil) && !o.inNamespace
	return errors.Join(problems...)
}

var errPlanFails = exitError{errors.New("a VM would be rejected, or presets would conflict"), exitPlan, true}

func (o *planCommand) run(ctx context.Context, s streams) error {
	x, err := o.comparison(ctx, s)
	if err != nil {
		return badInput(err)
	}
	p := &planPrinter{streams: s, output: o.output}
	serverCheck := o.serverCheck()
	x.Visit = func(c offline.Compared) {
		p.visit(c)
		serverCheck.visit(c)
	}
	shown := newProgress(s, "compared", 0)
	x.Progress = func(done, total int) {
		shown.total = total
		shown.at(done)
	}
	plan, err := x.Plan(ctx)
	shown.clear()
	if err != nil {
		return badInput(err)
	}
	if plan.Incomplete {
		x.Notes = append(x.Notes, "too many pairs of presets, or too many findings, to compare conflicts")
	}
	if plan.VMs == 0 {
		x.Notes = append(x.Notes, "no VM in "+o.described(nil)+": only presets are compared")
	}
	note(s, x.Notes)
	if err := serverCheck.run(ctx, o, x, plan); err != nil {
		return err
	}
	if err := p.print(plan); err != nil {
		return fmt.Errorf("cannot print the plan: %w", err)
	}
	switch {
	case plan.Fails():
		return errPlanFails
	case plan.Differs():
		return errPrinted
	}
	return nil
}

// badInput returns an error with the exit code for input, even for rejected presets.
func badInput(err error) error { return errors.New(err.Error()) }

func (o *planCommand) comparison(ctx context.Context, s streams) (*offline.Comparison, error) {
	files, cluster, err := o.sources(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	known, err := o.clusterSettings(s, nil)
	if err != nil {
		return nil, err
	}
	presets, others := split(files)
	x := &offline.Comparison{Settings: known}
	if x.Selector, err = labels.Parse(o.selector); err != nil {
		return nil, err // unreachable: validated before
	}
	if o.inNamespace {
		x.Namespace = o.namespace
	}
	if !slices.ContainsFunc(slices.Concat(files, cluster), offline.IsRule) && o.baseDir == "" && o.baseRef == "" {
		return nil, fmt.Errorf("no preset or policy in %s", o.described(nil))
	}
	if o.baseDir == "" && o.baseRef == "" {
		x.Before = offline.Replace(cluster, others, o.namespace)
		if o.prune {
			cluster = slices.DeleteFunc(cluster, offline.IsPreset)
		}
		x.After = offline.Replace(cluster, files, o.namespace)
		return x, nil
	}
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	old, _ := split(base)
	x.Before = offline.Replace(offline.Without(cluster, presets, o.namespace), append(old, others...), o.namespace)
	x.After = offline.Replace(offline.Without(cluster, old, o.namespace), files, o.namespace)
	return x, nil
}

func (o *planCommand) base() ([]manifest.Object, error) {
	if o.baseDir == "" {
		return manifest.ReadRevision(o.baseRef, o.files, o.recursive)
	}
	if _, err := os.Stat(o.baseDir); err != nil {
		return nil, fmt.Errorf("cannot read --base-dir: %w", err)
	}
	if o.kustomize != "" && kustomize.Contains(o.baseDir) {
		return kustomize.Build(o.baseDir)
	}
	old := manifest.Sources{Stdin: strings.NewReader(""), Names: []string{o.baseDir}, Recursive: o.recursive, AllowMissing: true}
	return old.Objects(math.MaxInt)
}

func split(objects []manifest.Object) (presets, others []manifest.Object) {
	for _, o := range objects {
		if offline.IsPlanned(o) {
			presets = append(presets, o)
		} else {
			others = append(others, o)
		}
	}
	return presets, others
}

// serverCheck sends the presets, and each VM that would change, to the API server in a dry run. It
// includes webhooks, policies and quotas of others. A nil serverCheck does nothing.
type serverCheck struct{ changed []offline.Compared }

func (o *planCommand) serverCheck() *serverCheck {
	if o.dryRun == "server" {
		return &serverCheck{}
	}
	return nil
}

func (r *serverCheck) visit(c offline.Compared) {
	if r != nil && c.After != nil && len(c.Changes) > 0 {
		r.changed = append(r.changed, c)
	}
}

func (r *serverCheck) run(ctx context.Context, o *planCommand, x *offline.Comparison, plan *fleet.Plan) error {
	if r == nil {
		return nil
	}
	config, _, err := o.connection.config()
	if err != nil {
		return err
	}
	client, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return err
	}
	wanted, _ := split(x.After)
	for _, p := range wanted {
		if p.Context {
			continue
		}
		if err := applyPreset(ctx, client, o.namespace, p); err != nil {
			return err
		}
	}
	return r.checkVMs(ctx, client, plan)
}

// applyPreset sends an object like kubectl apply --server-side --dry-run=server.
func applyPreset(ctx context.Context, client dynamic.Interface, namespace string, p manifest.Object) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(p.JSON); err != nil {
		return fmt.Errorf("%s: cannot read the preset: %w", p.Where, err)
	}
	resource := v1alpha1.GroupVersion.WithResource("clustervirtualmachinepresets")
	switch p.Kind {
	case v1alpha1.KindVirtualMachinePreset:
		resource.Resource = v1alpha1.ResourceVirtualMachinePresets
	case v1alpha1.KindPresetException:
		resource.Resource = v1alpha1.ResourcePresetExceptions
	}
	if p.Kind != v1alpha1.KindClusterVirtualMachinePreset && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: program, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("%s: the API server rejects %s %s: %w", p.Where, p.Kind, object.GetName(), err)
	}
	return nil
}

// checkVMs sends each VM as it would be stored. It ignores rejections by presets that the plan
// changes, because the API server still uses the old ones.
func (r *serverCheck) checkVMs(ctx context.Context, client dynamic.Interface, plan *fleet.Plan) error {
	refusals, problems := make([]error, len(r.changed)), make([]error, len(r.changed))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range r.changed {
		group.Go(func() error {
			refusals[i], problems[i] = checkVM(ctx, client, c)
			return nil
		})
	}
	_ = group.Wait() // problems has the errors
	for i, c := range r.changed {
		texts := slices.DeleteFunc(rejections(refusals[i]), func(text string) bool {
			return slices.ContainsFunc(plan.Presets, func(p fleet.PresetChange) bool {
				return (p.Namespace == "" || p.Namespace == c.Namespace) && namesPreset(text, p.Preset)
			})
		})
		plan.Refuse(c.Namespace+"/"+c.Name, texts)
	}
	plan.Finish()
	return errors.Join(problems...)
}

// checkVM returns why the API server rejects a VM, or an error if there is no answer.
func checkVM(ctx context.Context, client dynamic.Interface, c offline.Compared) (refusal, err error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.After, &object.Object); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.VM, err)
	}
	resource := virtualMachines
	if c.Kind == presets.VirtualMachineInstance {
		resource.Resource = "virtualmachineinstances"
	}
	vms := client.Resource(resource).Namespace(c.Namespace)
	exists := object.GetResourceVersion() != ""
	if !exists && object.GetName() != "" {
		stored, err := vms.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && c.Kind == presets.VirtualMachineInstance:
			return nil, nil // VMIs never change
		case err == nil:
			object, exists = merged(stored, object), true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("cannot validate %s by a dry run of the API server: %w", c.VM, err)
		}
	}
	if exists {
		_, err = vms.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	} else {
		_, err = vms.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	switch {
	case err == nil, apierrors.IsConflict(err):
		return nil, nil // a concurrent change is validated when the plan is applied
	case isRejection(err):
		return err, nil
	}
	return nil, fmt.Errorf("cannot validate %s by a dry run of the API server: %w", c.VM, err)
}

func merged(stored, file *unstructured.Unstructured) *unstructured.Unstructured {
	stored.Object["spec"] = file.Object["spec"]
	stored.SetLabels(labels.Merge(stored.GetLabels(), file.GetLabels()))
	stored.SetAnnotations(labels.Merge(stored.GetAnnotations(), file.GetAnnotations()))
	return stored
}

// Details of an API error do not contain the name of the VM.
func rejections(refusal error) []string {
	var status apierrors.APIStatus
	if refusal == nil || !errors.As(refusal, &status) {
		return nil
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return []string{refusal.Error()}
	}
	var out []string
	for _, cause := range details.Causes {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>")+": "+cause.Message, ": "))
	}
	slices.Sort(out)
	return out
}

// namesPreset reports whether a message contains "preset NAME" or "presets NAME and NAME".
func namesPreset(text, ref string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/.-", r)
	})
	for i, word := range words {
		named := i > 0 && slices.Contains([]string{"preset", "presets", "and"}, words[i-1])
		if strings.TrimSuffix(word, ".") == ref && (named || strings.HasPrefix(ref, "cluster/")) {
			return true
		}
	}
	return false
}
