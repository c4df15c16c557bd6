package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const rolloutHelp = `Show and control how changes of presets reach virtual machines in waves. A PresetRollout says which
presets and waves; kubectl get presetrollouts lists them.

status shows one. pause stops it before the next VM, and resume continues it. approve lets the wave
begin that waits for an approval; it needs the verb approve on the PresetRollout. abort takes the
change back, also during a pause: VMs that have it get the stable revision again, until a preset
changes.

Exit codes: 0 success, 1 the cluster rejected the request, or with status --watch: it is neither
complete nor waits for an approval, 2 wrong usage, or it does not exist.`

const rolloutExamples = `  # Follow a rollout until it is complete, waits for an approval, or fails
  {{program}} rollout status secure-boot --watch

  # Let the wave begin that waits for an approval
  {{program}} rollout approve secure-boot

  # Take the change back
  {{program}} rollout abort secure-boot`

// rolloutPeriod is the time between two reads of a rollout that is watched.
const rolloutPeriod = 2 * time.Second

// patientReads are the reads of a rollout until the user learns that it stays behind.
const patientReads = 6

type rolloutCommand struct {
	connection connection
	watch      bool
}

func newRollout(shown string, s streams) *cobra.Command {
	r := &rolloutCommand{}
	c := &cobra.Command{
		Use: "rollout {status | pause | resume | approve | abort} NAME", Short: "Show and control the rollout of changed presets",
		Long: rolloutHelp, Example: strings.ReplaceAll(rolloutExamples, "{{program}}", shown),
		ValidArgs: []string{"status", "pause", "resume", "approve", "abort"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains(c.ValidArgs, args[0]) {
				return errors.New("name an action, status, pause, resume, approve or abort, and one PresetRollout")
			}
			if r.watch && args[0] != "status" {
				return errors.New("--watch: use it with status")
			}
			return r.run(c.Context(), s, args[0], args[1])
		},
	}
	r.connection.declare(c)
	c.Flags().Lookup("namespace").Hidden = true // a PresetRollout has none
	c.Flags().BoolVarP(&r.watch, "watch", "w", false, "with status: print a line for each change, until the rollout is complete, waits for a person, or has failed")
	return c
}

// presetRollouts are those of a cluster.
type presetRollouts struct {
	dynamic.ResourceInterface
	presets dynamic.ResourceInterface
}

func (r *rolloutCommand) run(ctx context.Context, s streams, action, name string) error {
	config, _, err := r.connection.config()
	if err != nil {
		return err
	}
	client, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return err
	}
	from := presetRollouts{
		client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourcePresetRollouts)),
		client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterVirtualMachinePresets)),
	}
	now, err := from.read(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case r.watch:
		return from.follow(ctx, s, now)
	case action == "status":
		return printRollout(s, now, from.isBehind(ctx, now))
	case action == "approve" || action == "abort":
		if now, err = from.current(ctx, now); err != nil {
			return err
		}
	}
	todo, err := orderOf(action, now)
	if err != nil {
		return err
	}
	return from.annotate(ctx, s, now, todo)
}

func (r presetRollouts) read(ctx context.Context, name string) (*v1alpha1.PresetRollout, error) {
	found, err := r.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read PresetRollout %s: %w", name, err)
	}
	return decoded[v1alpha1.PresetRollout](found)
}

// readLater waits for a period, and reads a rollout.
func (r presetRollouts) readLater(ctx context.Context, name string) (*v1alpha1.PresetRollout, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(rolloutPeriod):
		return r.read(ctx, name)
	}
}

// An order controls a rollout by annotations; a nil value removes one.
type order struct {
	annotations map[string]any
	done        string // for users
}

func orderOf(action string, r *v1alpha1.PresetRollout) (order, error) {
	reason := progressOf(r).Reason
	switch action {
	case "pause":
		return order{map[string]any{v1alpha1.AnnotationRolloutPaused: "true"}, "paused"}, nil
	case "resume":
		if r.Annotations[v1alpha1.AnnotationRolloutPaused] == "" {
			return order{}, fmt.Errorf("PresetRollout %s is not paused: its state is %s", r.Name, reason)
		}
		return order{map[string]any{v1alpha1.AnnotationRolloutPaused: nil}, "resumed"}, nil
	case "approve":
		wave := waitingWave(r)
		if reason != "WaitingForApproval" {
			return order{}, fmt.Errorf("PresetRollout %s waits for no approval: its state is %s, not WaitingForApproval", r.Name, reason)
		}
		if wave == "" {
			return order{}, fmt.Errorf("PresetRollout %s waits for no approval: no wave follows %s", r.Name, r.Status.Wave)
		}
		return order{map[string]any{v1alpha1.AnnotationRolloutApproved: r.Status.Target + "/" + wave}, "approved: wave " + wave + " begins"}, nil
	}
	if !slices.ContainsFunc(r.Status.Presets, func(p v1alpha1.RolloutPreset) bool { return p.Stable != p.Target }) {
		return order{}, fmt.Errorf("PresetRollout %s rolls no change out that could be aborted: its state is %s", r.Name, reason)
	}
	if r.Status.Aborted {
		return order{}, fmt.Errorf("PresetRollout %s is aborted already: its state is %s", r.Name, reason)
	}
	return order{
		map[string]any{v1alpha1.AnnotationRolloutAborted: r.Status.Target, v1alpha1.AnnotationRolloutPaused: nil}, "aborted: VMs get the stable revision again",
	}, nil
}

// waitingWave returns the wave after the one that was reached.
func waitingWave(r *v1alpha1.PresetRollout) string {
	next := 1 + slices.IndexFunc(r.Spec.Waves, func(w v1alpha1.RolloutWave) bool { return w.Name == r.Status.Wave })
	if next == len(r.Spec.Waves) {
		return ""
	}
	return r.Spec.Waves[next].Name
}

// annotate fails if the rollout has changed: an order is about what its author saw.
func (r presetRollouts) annotate(ctx context.Context, s streams, seen *v1alpha1.PresetRollout, todo order) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": seen.ResourceVersion, "annotations": todo.annotations,
	}})
	if err != nil {
		return err
	}
	_, err = r.Patch(ctx, seen.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: program})
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("PresetRollout %s has changed meanwhile: look at its status, and try again", seen.Name)
	case err != nil:
		return answered(fmt.Errorf("cannot change PresetRollout %s: %w", seen.Name, err))
	}
	_, err = fmt.Fprintf(s.out, "presetrollout/%s %s\n", seen.Name, todo.done)
	return err
}

// current returns the rollout once it has met the last change: an approval or an abort would be
// about a state that has ended.
func (r presetRollouts) current(ctx context.Context, now *v1alpha1.PresetRollout) (_ *v1alpha1.PresetRollout, err error) {
	for range patientReads {
		if !r.isBehind(ctx, now) {
			return now, nil
		}
		if now, err = r.readLater(ctx, now.Name); err != nil {
			return nil, err
		}
	}
	return nil, errors.New(notSeen + "; meanwhile, " + program + " rollout pause " + now.Name + " lets it begin nothing")
}

// isBehind reports whether the rollout has not met its spec, its annotations, or the newest
// revision of a preset. A preset that cannot be read does not count, nor one that another rollout
// has.
func (r presetRollouts) isBehind(ctx context.Context, now *v1alpha1.PresetRollout) bool {
	progress := progressOf(now)
	if progress.ObservedGeneration != now.Generation || hasOrders(now) {
		return true
	}
	return slices.ContainsFunc(now.Status.Presets, func(p v1alpha1.RolloutPreset) bool {
		if progress.Reason == "Invalid" && p.Target != 0 {
			return false
		}
		preset, err := r.presets.Get(ctx, strings.TrimPrefix(p.Name, "cluster/"), metav1.GetOptions{})
		return err == nil && (preset.GetGeneration() != p.Target || preset.GetUID() != p.UID)
	})
}

// hasOrders reports whether people have ended a state that the rollout is still in.
func hasOrders(r *v1alpha1.PresetRollout) bool {
	status, reason, next := &r.Status, progressOf(r).Reason, waitingWave(r)
	switch {
	case reason == "Complete" || reason == "Invalid":
		return false
	case reason == "Paused" && r.Annotations[v1alpha1.AnnotationRolloutPaused] != "true":
		return true
	case reason == "WaitingForApproval" && next != "" && r.Annotations[v1alpha1.AnnotationRolloutApproved] == status.Target+"/"+next:
		return true
	}
	return !status.Aborted && status.Target != "" && r.Annotations[v1alpha1.AnnotationRolloutAborted] == status.Target
}

// progressOf returns the condition Progressing, with reason <unknown> if there is none yet.
func progressOf(r *v1alpha1.PresetRollout) metav1.Condition {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil {
		return metav1.Condition{Reason: unknownCount}
	}
	return *c
}

const unknownCount = "<unknown>"

// shownCount is - if no change was rolled out yet, or none can be.
func shownCount(r *v1alpha1.PresetRollout, n *int64) string {
	switch {
	case n != nil:
		return strconv.FormatInt(*n, 10)
	case progressOf(r).Reason == "Complete", progressOf(r).Reason == "Invalid":
		return "-"
	}
	return unknownCount
}

// rolloutLine describes a rollout in one line.
func rolloutLine(r *v1alpha1.PresetRollout) string {
	st := &r.Status
	out := progressOf(r).Reason
	if st.Wave != "" {
		out += fmt.Sprintf(": wave %s up to %s", st.Wave, st.Step)
	}
	if st.Selected != nil {
		out += fmt.Sprintf(": %s of %s VMs updated, %s held, %s failed", shownCount(r, st.Updated), shownCount(r, st.Selected), shownCount(r, st.Held), shownCount(r, st.Failed))
		if n := ptr.Deref(st.Waiting, 0); n > 0 {
			out += fmt.Sprintf(", %d wait for a restart, or to be ready", n)
		}
	}
	return out
}

func rolloutRow(r *v1alpha1.PresetRollout) []string {
	st := &r.Status
	return []string{
		progressOf(r).Reason, st.Wave, st.Step, shownCount(r, st.Updated), shownCount(r, st.Selected), shownCount(r, st.Held), shownCount(r, st.Failed),
	}
}

var rolloutHeader = []string{"STATE", "WAVE", "STEP", "UPDATED", "VMS", "HELD", "FAILED"}

func printRollout(s streams, r *v1alpha1.PresetRollout, behind bool) error {
	if err := printTable(s.out, rolloutHeader, [][]string{rolloutRow(r)}); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	progress := progressOf(r)
	if progress.Message != "" {
		text.WriteString(oneLine(progress.Message) + "\n")
	}
	if behind {
		text.WriteString(notSeen + "\n")
	}
	for _, p := range r.Status.Presets {
		if p.Stable != p.Target {
			stable := fmt.Sprintf("revision %d", p.Stable)
			if p.Stable == 0 { // the preset is new to the rollout, or was created again
				stable = "no revision"
			}
			fmt.Fprintf(&text, "%s: %s is stable, %d is rolled out\n", p.Name, stable, p.Target)
		}
	}
	if n := ptr.Deref(r.Status.Waiting, 0); n > 0 {
		when := "wait for a restart"
		if progress.Reason == "Complete" { // nothing counts them any more
			when = "waited at the end for a restart by their owners (virtwright restart)"
		}
		fmt.Fprintf(&text, "%d of the updated VMs %s, or to be ready\n", n, when)
	}
	for _, f := range r.Status.Failures {
		fmt.Fprintf(&text, "%s/%s: %s\n", f.Namespace, f.Name, oneLine(f.Message))
	}
	_, err := fmt.Fprint(s.out, text.String())
	return err
}

const notSeen = "virtwright has not acted on the last change of this PresetRollout, or of its presets, yet; if this lasts, look at the manager"

// follow prints a line for each change, until a person is needed or the rollout has ended.
func (r presetRollouts) follow(ctx context.Context, s streams, now *v1alpha1.PresetRollout) error {
	var last string
	for late := 0; ; {
		behind := r.isBehind(ctx, now)
		if late++; !behind {
			late = 0
		}
		if line := rolloutLine(now); line != last && !behind {
			last = line
			if _, err := fmt.Fprintln(s.out, line); err != nil {
				return err
			}
		}
		if late == patientReads {
			note(s, []string{notSeen})
		}
		switch reason := progressOf(now).Reason; {
		case behind, slices.Contains([]string{"Updating", "Baking", "Aborting", unknownCount}, reason):
		case reason == "Complete", reason == "WaitingForApproval":
			return nil
		default:
			return errors.Join(printRollout(s, now, behind), errPrinted)
		}
		var err error
		if now, err = r.readLater(ctx, now.Name); err != nil {
			return err
		}
	}
}
