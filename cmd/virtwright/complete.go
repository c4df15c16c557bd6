package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
	"github.com/virtwright/virtwright/presets"
)

// complete completes at most so many names of objects: NAME of a VM, TYPE/NAME, or NAME after a
// TYPE. 0 means no limit.
func (o *connection) complete(most int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		typed, prefix, given := "vm", "", args
		if of, _, found := strings.Cut(text, "/"); found {
			typed, prefix = of, of+"/"
		} else if len(args) > 0 && live.IsType(args[0]) {
			typed, given = args[0], args[1:]
		}
		of, namespaced, known := live.Resource(typed)
		if !known || most > 0 && len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, name := range o.namesOf(c.Context(), of, namespaced) {
			if !slices.Contains(args, prefix+name) {
				out = append(out, prefix+name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completePaths also completes the path of a field.
func (o *connection) completePaths(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if isFieldPath(text) {
		return presets.PathCompletions(text), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	names, directive := o.complete(0)(c, args, text)
	if paths := presets.PathCompletions(text); len(names) == 0 && len(paths) > 0 {
		return paths, directive | cobra.ShellCompDirectiveNoSpace
	}
	return names, directive
}

// completePresets completes the names of presets, as in --preset.
func (o *connection) completePresets(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for typed, prefix := range map[string]string{"vmpreset": "", "cvmpreset": "cluster/"} {
		of, namespaced, _ := live.Resource(typed)
		for _, name := range o.namesOf(c.Context(), of, namespaced) {
			out = append(out, prefix+name)
		}
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// namesOf lists the names of objects, if the cluster responds soon.
func (o *connection) namesOf(ctx context.Context, of schema.GroupVersionResource, namespaced bool) (names []string) {
	const patience, most = 3 * time.Second, 500
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config, namespace, err := o.config()
	if err != nil {
		return nil
	}
	if !namespaced {
		namespace = ""
	}
	client, err := newClient(quiet(config), metadata.NewForConfig)
	if err != nil {
		return nil
	}
	list, err := client.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: most})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
