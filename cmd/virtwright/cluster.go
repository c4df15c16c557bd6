package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/pager"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
)

const parallel = 8

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
	f.StringVarP(&t.selector, "selector", "l", "", "VMs with these labels, like kubectl -l")
	f.BoolVar(&t.all, "all", false, "all VMs of the namespace")
	f.BoolVarP(&t.everywhere, "all-namespaces", "A", false, "VMs of all namespaces")
}

// read parses TYPE/NAME arguments and reports all problems. other is true if another flag of the
// command selects VMs; flags lists all such flags.
func (t *targets) read(doing string, args, kinds []string, other bool, flags string) error {
	names, err := live.Names(args)
	problems := []error{err}
	for _, n := range names {
		if n.IsAll() || !slices.Contains(kinds, n.Type()) {
			problems = append(problems, fmt.Errorf("cannot %s a %s: name VMs, for example web or vm/web", doing, n.Type()))
		}
		if !slices.Contains(t.names, n.Name()) {
			t.names = append(t.names, n.Name())
		}
	}
	selector, err := labels.Parse(t.selector)
	if err != nil {
		problems = append(problems, fmt.Errorf("invalid selector -l %q: %w", t.selector, err))
	}
	chosen := other || t.all || err != nil || !selector.Empty()
	switch {
	case len(args) == 0 && !chosen:
		problems = append(problems, errors.New("select VMs by name, or by one of "+flags))
	case len(args) > 0 && chosen:
		problems = append(problems, errors.New("names cannot be combined with "+flags))
	}
	return errors.Join(problems...)
}

// choose applies keep, if not nil, to the objects that flags select.
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
	client, err := newClient(config, metadata.NewForConfig)
	if err != nil {
		return nil, nil, err
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

// oneVM returns the name of the only object that the arguments name.
func oneVM(args []string, doing string, kinds ...string) (string, error) {
	const want = "name one VM, for example web or vm/web"
	names, err := live.Names(args)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New(want)
	}
	if len(names) != 1 || names[0].IsAll() || !slices.Contains(kinds, names[0].Type()) {
		return "", fmt.Errorf("cannot %s %q: %s", doing, strings.Join(args, " "), want)
	}
	return names[0].Name(), nil
}

// noteNone prints a note if flags select no VMs.
func (t *targets) noteNone(s streams, chosen int) {
	if _, namespace, err := t.connection.config(); chosen == 0 && err == nil {
		place := "namespace " + namespace
		if t.everywhere {
			place = "any namespace"
		}
		note(s, []string{"no VMs found in " + place})
	}
}

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// dryRun is the value of the flag --dry-run, which has the meaning of kubectl's.
type dryRun string

func (d *dryRun) declare(c *cobra.Command, client, server string) {
	c.Flags().StringVar((*string)(d), "dry-run", dryRunNone, "none; client: "+client+"; server: "+server+"; alone: client")
	c.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	offer(c, "dry-run", []string{dryRunNone, dryRunClient, dryRunServer})
}

func (d dryRun) check() error {
	return oneOf("--dry-run", string(d), dryRunNone, dryRunClient, dryRunServer)
}

// on reports whether there is a dry run. The zero value is none.
func (d dryRun) on() bool { return d == dryRunClient || d == dryRunServer }

func (d dryRun) suffix() string {
	if d.on() {
		return " (dry run)"
	}
	return ""
}

// inOrder sends requests concurrently and handles the responses in the order of the VMs.
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

type connection struct {
	flags *genericclioptions.ConfigFlags
}

// declare adds the flags. Help lists only the common ones.
func (o *connection) declare(c *cobra.Command) {
	o.flags = genericclioptions.NewConfigFlags(true)
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags.AddFlags(all)
	shown := map[string]string{
		"kubeconfig": "path to the kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)",
		"context":    "context of the kubeconfig (default: the current context)",
		"namespace":  "namespace of the VM (default: that of the context)",
		"as":         "user to impersonate",
	}
	all.VisitAll(func(f *pflag.Flag) {
		if usage, ok := shown[f.Name]; ok {
			f.Usage = usage
		} else {
			f.Hidden = true
		}
	})
	c.Flags().AddFlagSet(all)
	// The errors mean that the flags do not exist.
	_ = c.RegisterFlagCompletionFunc("namespace", func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return o.namesOf(c.Context(), corev1.SchemeGroupVersion.WithResource("namespaces"), false), cobra.ShellCompDirectiveNoFileComp
	})
	_ = c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		raw, _ := o.flags.ToRawKubeConfigLoader().RawConfig() // no contexts if it cannot be read
		return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

func (o *connection) chosen() bool { return *o.flags.Context != "" || *o.flags.KubeConfig != "" }

// cluster returns the name of the cluster in messages: its context or its address.
func (o *connection) cluster() string {
	name := *o.flags.Context
	if raw, err := o.flags.ToRawKubeConfigLoader().RawConfig(); err == nil {
		name = cmp.Or(name, raw.CurrentContext)
	}
	if config, err := o.flags.ToRESTConfig(); name == "" && err == nil {
		name = config.Host
	}
	return name
}

type clusterClient struct {
	verbs     rest.Interface
	vms, vmis dynamic.NamespaceableResourceInterface
}

// errNoCluster prevents requests to the legacy default address if there is no kubeconfig.
var errNoCluster = errors.New("no cluster selected: there is no kubeconfig")

func (o *connection) config() (*rest.Config, string, error) {
	loaded := o.flags.ToRawKubeConfigLoader()
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	raw, err := loaded.RawConfig()
	if err == nil && clientcmdapi.IsConfigEmpty(&raw) && *o.flags.APIServer == "" && config.Host == "http://localhost:8080" {
		return nil, "", errNoCluster
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the namespace of the kubeconfig: %w", err)
	}
	return rest.AddUserAgent(config, program), namespace, nil
}

func newClient[T any](config *rest.Config, create func(*rest.Config) (T, error)) (T, error) {
	client, err := create(config)
	if err != nil {
		err = fmt.Errorf("cannot create a client for %s: %w", config.Host, err)
	}
	return client, err
}

func newClusterClient(config *rest.Config) (*clusterClient, error) {
	config = quiet(config)
	objects, err := newClient(config, dynamic.NewForConfig)
	if err != nil {
		return nil, err
	}
	requests, err := newClient(config, discovery.NewDiscoveryClientForConfig)
	if err != nil {
		return nil, err
	}
	vmis := kubevirtv1.GroupVersion.WithResource("virtualmachineinstances")
	return &clusterClient{requests.RESTClient(), objects.Resource(virtualMachines), objects.Resource(vmis)}, nil
}

func (c *clusterClient) vm(ctx context.Context, vm types.NamespacedName) (*kubevirtv1.VirtualMachine, error) {
	got, err := c.vms.Namespace(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return decoded[kubevirtv1.VirtualMachine](got)
}

// vmi reads the VMI of a VM; nil if it does not exist.
func (c *clusterClient) vmi(ctx context.Context, vm types.NamespacedName) (*kubevirtv1.VirtualMachineInstance, error) {
	got, err := c.vmis.Namespace(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decoded[kubevirtv1.VirtualMachineInstance](got)
}

func decoded[T any](in *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in.Object, out); err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", in.GetKind(), in.GetName(), err)
	}
	return out, nil
}
