package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
)

// parallel is how many VMs requests are sent for at the same time.
const parallel = 8

// targets are the VMs that a command is about, as the user chooses them.
type targets struct {
	connection connection
	selector   string
	all        bool
	everywhere bool
	names      []string
}

func (t *targets) declare(c *cobra.Command) {
	t.connection.declare(c)
	f := c.Flags()
	f.StringVarP(&t.selector, "selector", "l", "", "VMs with these labels, as kubectl -l")
	f.BoolVar(&t.all, "all", false, "all VMs of the namespace")
	f.BoolVarP(&t.everywhere, "all-namespaces", "A", false, "VMs of all namespaces")
}

// read reads names of VMs, each TYPE/NAME, and reports everything that is wrong. Other says that another
// flag of the command chooses VMs; flags are all such flags.
func (t *targets) read(doing string, args, kinds []string, other bool, flags string) error {
	names, err := live.Names(args)
	problems := []error{err}
	for _, n := range names {
		if n.IsAll() || !slices.Contains(kinds, n.Type()) {
			problems = append(problems, fmt.Errorf("cannot %s a %s: name VMs, as in vm/web", doing, n.Type()))
		}
		if !slices.Contains(t.names, n.Name()) {
			t.names = append(t.names, n.Name())
		}
	}
	selector, err := labels.Parse(t.selector)
	if err != nil {
		problems = append(problems, fmt.Errorf("cannot understand the selector -l %q: %w", t.selector, err))
	}
	chosen := other || t.all || err != nil || !selector.Empty()
	switch {
	case len(args) == 0 && !chosen:
		problems = append(problems, errors.New("choose VMs: give names, or one of "+flags))
	case len(args) > 0 && chosen:
		problems = append(problems, errors.New("names exclude "+flags))
	}
	return errors.Join(problems...)
}

// choose returns the VMs, in a cluster. Flags choose among the objects of a resource; keep, if
// not nil, accepts them.
func (t *targets) choose(ctx context.Context, of schema.GroupVersionResource, keep func(*metav1.PartialObjectMetadata) bool) (*rest.Config, []types.NamespacedName, error) {
	config, namespace, err := t.connection.config()
	if err != nil {
		return nil, nil, err
	}
	config = quiet(config)
	var out []types.NamespacedName
	for _, name := range t.names {
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	if len(t.names) > 0 {
		return config, out, nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	if t.everywhere {
		namespace = metav1.NamespaceAll
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(of).Namespace(namespace).List(ctx, options)
	})
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: t.selector}, func(object runtime.Object) error {
		if vm, ok := object.(*metav1.PartialObjectMetadata); ok && (keep == nil || keep(vm)) {
			out = append(out, types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name})
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list VMs: %w", err)
	}
	return config, out, nil
}

// typed returns names with a type before those that have none.
func typed(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if !strings.Contains(arg, "/") {
			out[i] = "vm/" + arg
		}
	}
	return out
}

// inOrder sends requests for several VMs at the same time, and uses the answers in the order of the VMs.
func inOrder[T any](vms []types.NamespacedName, request func(types.NamespacedName) T, use func(types.NamespacedName, T)) {
	answers := make(chan chan T, parallel)
	go func() {
		defer close(answers)
		var group errgroup.Group
		group.SetLimit(parallel)
		for _, vm := range vms {
			answer := make(chan T, 1)
			answers <- answer
			group.Go(func() error {
				answer <- request(vm)
				return nil
			})
		}
	}()
	for _, vm := range vms {
		use(vm, <-<-answers)
	}
}
