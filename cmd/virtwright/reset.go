package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	verbReset      = "reset"
	verbSoftReboot = "softreboot"
)

const resetHelp = `The cluster that the kubeconfig names is asked to %[2]s (PUT …/virtualmachineinstances/NAME/%[1]s of
subresources.kubevirt.io/v1, as virtctl does); its answer comes at once, and the agent of the
node on which the machine runs does it then. The machine stays the same instance: what its spec
says by now counts when it is started anew (restart).

Exit codes: 0 when the request was accepted, 1 when the cluster refuses it, 2 for wrong usage
and when the cluster cannot be asked.`

// reset is a call of one of the verbs that are about what runs.
type reset struct {
	verb, name string
	connection connection
	dryRun     bool
}

func newReset(shown string, s streams) *cobra.Command {
	return (&reset{verb: verbReset}).command(shown, s, "Reset a virtual machine that runs", "reset a machine, whatever its guest does, as by its reset button")
}

func newSoftReboot(shown string, s streams) *cobra.Command {
	return (&reset{verb: verbSoftReboot}).command(shown, s, "Ask the guest of a virtual machine to reboot", "have a machine's guest reboot, by its agent or by ACPI")
}

func (r *reset) command(shown string, s streams, short, asked string) *cobra.Command {
	c := &cobra.Command{
		Use:               r.verb + " NAME",
		Short:             short,
		Long:              short + ".\n\n" + fmt.Sprintf(resetHelp, r.verb, asked),
		Example:           strings.ReplaceAll("  {{program}} "+r.verb+" web -n shop", "{{program}}", shown),
		Args:              oneName(r.verb),
		ValidArgsFunction: r.connection.complete,
		RunE: func(c *cobra.Command, args []string) error {
			r.name = args[0]
			return r.run(c.Context(), s)
		},
	}
	r.connection.declare(c)
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "ask whether it would be accepted, and change nothing")
	return c
}

func (r *reset) run(ctx context.Context, s streams) error {
	c, err := r.connection.connect()
	if err != nil {
		return err
	}
	if err := r.request(ctx, c); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "VMI %s was scheduled to %s%s\n", r.name, r.verb, inDryRun(r.dryRun))
	return nil
}

// request asks for what the verb says.
func (r *reset) request(ctx context.Context, c *clusterClient) error {
	put := c.verbs.Put().AbsPath("/apis", subresources, "namespaces", c.namespace, "virtualmachineinstances", r.name, r.verb).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
	if r.dryRun {
		body, err := json.Marshal(map[string][]string{"dryRun": {metav1.DryRunAll}})
		if err != nil {
			return fmt.Errorf("cannot write the request: %w", err)
		}
		put = put.Body(body)
	}
	err := put.Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case unknownPath(err):
		return fmt.Errorf("cannot %s VMI %s/%s: %s is not served by this cluster: virtwright's chart or KubeVirt installs it (%w)", r.verb, c.namespace, r.name, subresources, err)
	}
	said := fmt.Errorf("cannot %s VMI %s/%s: %w", r.verb, c.namespace, r.name, err)
	if judged(err) && !apierrors.IsServiceUnavailable(err) {
		return declined{said}
	}
	return said
}
