package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// connection are the flags that say which cluster, as which user, and in which namespace.
type connection struct {
	flags *genericclioptions.ConfigFlags
}

// declare adds the flags of kubectl. Help lists those that people type.
func (o *connection) declare(c *cobra.Command) {
	o.flags = genericclioptions.NewConfigFlags(true)
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags.AddFlags(all)
	shown := map[string]string{
		"kubeconfig": "path to the kubeconfig file; else that of $KUBECONFIG, or ~/.kube/config",
		"context":    "context of the kubeconfig; else its current one",
		"namespace":  "namespace of the VM; else that of the context",
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
}

// chosen reports whether the user chose a cluster by flags.
func (o *connection) chosen() bool { return *o.flags.Context != "" || *o.flags.KubeConfig != "" }

// cluster is the name of the cluster in messages: that of its context, or its address.
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

// clusterClient reads VMs and VMIs of a cluster, and sends requests to start and stop them.
type clusterClient struct {
	// verbs sends the requests.
	verbs     rest.Interface
	vms, vmis dynamic.NamespaceableResourceInterface
}

// errNoCluster keeps a program without a kubeconfig from asking the default address of old clusters.
var errNoCluster = errors.New("cannot tell which cluster to ask: there is no kubeconfig")

// config is the cluster that the flags name, and the namespace.
func (o *connection) config() (*rest.Config, string, error) {
	loaded := o.flags.ToRawKubeConfigLoader()
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("cannot tell which cluster to ask: %w", err)
	}
	raw, err := loaded.RawConfig()
	if err == nil && clientcmdapi.IsConfigEmpty(&raw) && *o.flags.APIServer == "" && config.Host == "http://localhost:8080" {
		return nil, "", errNoCluster
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("cannot tell which namespace is meant: %w", err)
	}
	return rest.AddUserAgent(config, program), namespace, nil
}

func newClusterClient(config *rest.Config) (*clusterClient, error) {
	config = quiet(config)
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	requests, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	vmis := kubevirtv1.GroupVersion.WithResource("virtualmachineinstances")
	return &clusterClient{requests.RESTClient(), objects.Resource(virtualMachines), objects.Resource(vmis)}, nil
}

// complete offers the name of one VM.
func (o *connection) complete(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeNames(c, args, text)
}

// completeNames offers the names of VMs that are not in args, if the cluster answers soon.
func (o *connection) completeNames(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	var names []cobra.Completion
	config, namespace, err := o.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if client, err := newClusterClient(config); err == nil {
		list, err := client.vms.Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 500})
		for i := 0; err == nil && i < len(list.Items); i++ {
			if name := list.Items[i].GetName(); !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeTyped offers names as completeNames does, with the type before each.
func (o *connection) completeTyped(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, directive := o.completeNames(c, nil, text)
	for i := range names {
		names[i] = "vm/" + names[i]
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), directive
}

// machine reads a VM.
func (c *clusterClient) machine(ctx context.Context, vm types.NamespacedName) (*kubevirtv1.VirtualMachine, error) {
	got, err := c.vms.Namespace(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return decoded[kubevirtv1.VirtualMachine](got)
}

// instance reads the VMI of a VM, nil if it does not exist.
func (c *clusterClient) instance(ctx context.Context, vm types.NamespacedName) (*kubevirtv1.VirtualMachineInstance, error) {
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
