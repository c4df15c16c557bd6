package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const liveHelp = `The input is the files of -f and -k, a cluster, or both. A cluster is read if you name VMs or presets
of it (TYPE/NAME, or TYPE NAME...), if you give -A, -l, --context, --kubeconfig or --live, or if
you give no files. Types are vm, vmi, vmpreset and cvmpreset. A file replaces the object of the
same kind, namespace and name in the cluster. VMs of the cluster are read if you name or select
them, or if the files have none. Mode addon is the default if the cluster has KubeVirt.`

// source are the flags that say where objects come from.
type source struct {
	connection connection
	files      []string
	kustomize  string
	recursive  bool
	forceLive  bool
	all        bool
	selector   string
	// filesOnly says that files without VMs are enough.
	filesOnly bool
	// withVMs says that VMs of the cluster are read also if files have VMs, that VMIs and profiles are
	// not wanted, and that the selector also chooses VMs of files.
	withVMs bool
	// mayLack says that files and folders may be missing, or have no objects.
	mayLack bool
	// presetsOnly says that VMs are not wanted.
	presetsOnly bool
	// held is how many VMs of files are held in memory at once. If there are more, they are left to
	// input.VMs. 0 holds all.
	held  int
	input manifest.Sources
}

func (o *source) declare(c *cobra.Command) {
	o.connection.declare(c)
	f := c.Flags()
	f.Lookup("namespace").Usage = "namespace of objects that name none, and the namespace that is read of a cluster; else default, or that of the context"
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder or - for standard input; may be given several times")
	f.BoolVarP(&o.recursive, "recursive", "R", true, "read folders with everything beneath them")
	f.StringVarP(&o.kustomize, "kustomize", "k", "", "folder with a kustomization")
	f.BoolVar(&o.forceLive, "live", false, "read a cluster, too: what -f does not have comes from there")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "read all namespaces of a cluster")
	f.StringVarP(&o.selector, "selector", "l", "", "read only VMs and VMIs of a cluster with these labels, as kubectl -l")
}

// live reports whether a cluster is read.
func (o *source) live(args []string) bool {
	return len(args) > 0 || o.all || o.selector != "" && !o.withVMs || o.forceLive || o.connection.chosen() || len(o.files) == 0 && o.kustomize == ""
}

// check reports arguments and flags that exclude each other.
func (o *source) check(args []string) error {
	names, err := live.Names(args)
	problems := []error{err}
	for _, n := range names {
		switch {
		case o.all && !n.IsAll():
			problems = append(problems, errors.New("-A and names exclude each other"))
		case o.selector != "" && !n.IsAll():
			problems = append(problems, errors.New("-l and names exclude each other"))
		}
	}
	if _, err := labels.Parse(o.selector); err != nil {
		problems = append(problems, fmt.Errorf("cannot understand the selector -l %q: %w", o.selector, err))
	}
	return errors.Join(problems...)
}

// manifests reads -f and -k.
func (o *source) manifests(s streams, limit int) ([]manifest.Object, error) {
	o.input = manifest.Sources{Stdin: s.in, Names: o.files, Recursive: o.recursive, MayLack: o.mayLack}
	objects, err := o.input.Objects(limit)
	if o.kustomize == "" {
		return objects, err
	}
	built, kustomized := manifest.Kustomize(o.kustomize)
	return append(objects, built...), errors.Join(err, kustomized)
}

// objects returns what the command works on: the objects of files, and those of the cluster that
// files do not replace. args name VMs and presets of the cluster.
func (o *settings) objects(ctx context.Context, s streams, args []string) ([]manifest.Object, error) {
	files, cluster, err := o.sources(ctx, s, args)
	if err != nil || len(cluster) == 0 {
		return files, err
	}
	return offline.Replace(cluster, files, o.namespace), nil
}

// sources returns the objects of files and, apart from them, those of the cluster. It completes
// o.namespace and o.mode.
func (o *settings) sources(ctx context.Context, s streams, args []string) (files, cluster []manifest.Object, err error) {
	limit := o.held
	if limit == 0 || o.live(args) {
		limit = math.MaxInt // what a cluster has is compared with all VMs of files
	}
	files, err = o.manifests(s, limit)
	if err != nil || !o.live(args) {
		return files, nil, err
	}
	config, namespace, err := o.connection.config()
	if errors.Is(err, errNoCluster) && len(files) == 0 {
		return nil, nil, fmt.Errorf("-f is missing: name files or folders with VMs and presets, or choose a cluster: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	o.namespace = namespace
	if !o.modeGiven {
		if o.mode, err = modeOf(config); err != nil {
			return nil, nil, err
		}
	}
	names, err := live.Names(args)
	if err != nil {
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfig(quiet(config))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	from := &live.Cluster{Objects: objects, Name: o.connection.cluster()}
	query := o.query(names, offline.NewSurvey(files, namespace))
	query.VMs = query.VMs && !o.presetsOnly
	cluster, notes, err := from.Read(ctx, query)
	note(s, notes)
	return files, cluster, err
}

// query says what to read of a cluster, beside files.
func (o *settings) query(names []live.Name, files offline.Survey) live.Query {
	selected := o.all || o.selector != ""
	fromFiles := len(o.files) > 0 || o.kustomize != ""
	q := live.Query{
		Names: names, Selector: o.selector, Addon: o.mode == modeAddon,
		VMs:          o.withVMs || len(names) == 0 && (selected || !fromFiles || !files.VMs && !o.filesOnly),
		OnlyVMs:      o.withVMs,
		Surroundings: len(names) > 0 || o.selector != "" || fromFiles,
	}
	if q.All = o.all; q.All {
		return q
	}
	q.Namespaces = files.Namespaces
	if q.VMs || len(names) > 0 || len(q.Namespaces) == 0 {
		q.Namespace = o.namespace
	}
	return q
}

// modeOf is addon if the cluster has KubeVirt.
func modeOf(config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	resources, err := client.ServerResourcesForGroupVersion(kubevirtv1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return modeStandalone, nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot ask the cluster whether it has KubeVirt: %w", err)
	}
	for i := range resources.APIResources {
		if resources.APIResources[i].Name == "kubevirts" {
			return modeAddon, nil
		}
	}
	return modeStandalone, nil
}

// quiet is a configuration for kinds and versions that this program chooses.
func quiet(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1 // API servers limit requests themselves
	return config
}

// described says where objects were looked for.
func (o *settings) described(args []string) string {
	var places []string
	for _, file := range o.files {
		places = append(places, "-f "+file)
	}
	if o.kustomize != "" {
		places = append(places, "-k "+o.kustomize)
	}
	if o.live(args) {
		place := "namespace " + o.namespace
		if o.all {
			place = "any namespace"
		}
		if o.selector != "" {
			place += " with labels " + o.selector
		}
		places = append(places, place+" of cluster "+o.connection.cluster())
	}
	return strings.Join(places, " ")
}

// named takes names of objects in a cluster, and no files.
func named(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if err := noFile(arg); err != nil {
			return err
		}
	}
	_, err := live.Names(args)
	return err
}

// noFile refuses a file that lacks -f.
func noFile(arg string) error {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) {
		return fmt.Errorf("%s: give each file its own -f", arg)
	}
	return nil
}

// withPath splits arguments into names of objects and a path, which is the last argument.
func withPath(args []string) (names []string, path string) {
	if len(args) == 0 {
		return nil, ""
	}
	last := args[len(args)-1]
	typed, _, named := strings.Cut(last, "/")
	root := strings.IndexAny(last, ".[")
	isPath := root >= 0 && slices.Contains([]string{"spec", "metadata", "status"}, last[:root])
	switch {
	case named && live.IsType(typed), len(args) == 1 && live.IsType(last):
		return args, ""
	case isPath, len(args) == 1, strings.Contains(args[0], "/"):
		return args[:len(args)-1], last
	}
	return args, ""
}
