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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericclioptions"
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

// clusterClient is a cluster, as somebody, in a namespace.
type clusterClient struct {
	namespace string
	// verbs sends requests to start, stop and restart.
	verbs rest.Interface
	vms   dynamic.ResourceInterface
	vmis  dynamic.ResourceInterface
}

func (o *connection) connect() (*clusterClient, error) {
	config, namespace, err := o.config()
	if err != nil {
		return nil, err
	}
	c, err := newClusterClient(config, namespace)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	return c, nil
}

// errNoCluster keeps a program without a kubeconfig from asking the default address of old clusters.
var errNoCluster = errors.New("cannot tell which cluster to ask: there is no kubeconfig")

// config is the cluster that the flags name, and the namespace of the machine.
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

func newClusterClient(config *rest.Config, namespace string) (*clusterClient, error) {
	config = quiet(config)
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // which errors come in
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	verbs, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	kind := func(resource string) dynamic.ResourceInterface {
		return objects.Resource(kubevirtv1.GroupVersion.WithResource(resource)).Namespace(namespace)
	}
	return &clusterClient{namespace: namespace, verbs: verbs, vms: kind("virtualmachines"), vmis: kind("virtualmachineinstances")}, nil
}

// complete offers the names of the machines that there are, if the cluster says
// so before the user has typed one.
func (o *connection) complete(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	cluster, err := o.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	// What it does not say is not offered.
	if list, err := cluster.vms.List(ctx, metav1.ListOptions{Limit: 500}); err == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeTyped is complete with the type before each name.
func (o *connection) completeTyped(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, directive := o.complete(c, nil, text)
	for i := range names {
		names[i] = "vm/" + names[i]
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), directive
}

// machine reads a VM.
func (c *clusterClient) machine(ctx context.Context, name string) (*kubevirtv1.VirtualMachine, error) {
	got, err := c.vms.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return decoded[kubevirtv1.VirtualMachine](got)
}

// instance reads the VMI of a VM, nil where there is none.
func (c *clusterClient) instance(ctx context.Context, name string) (*kubevirtv1.VirtualMachineInstance, error) {
	got, err := c.vmis.Get(ctx, name, metav1.GetOptions{})
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
