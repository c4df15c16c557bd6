package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/kustomize"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const liveHelp = `The input is the files of -f and -k, a cluster, or both. A cluster is read if you name VMs or presets
of it (TYPE/NAME, TYPE NAME..., or NAME for a VM), if you set -A, -l, --context, --kubeconfig or --live, or if you
name no files. Types are vm, vmi, vmpreset and cvmpreset. A file replaces the object of the same
kind, namespace and name in the cluster. VMs of the cluster are read if you name or select them, or
if the files have none. The default mode is addon if the cluster has KubeVirt.`

// A source is where a command reads objects.
type source struct {
	location
	needs
	input  manifest.Sources
	unread error // why some objects could not be read; with needs.partial only
}

// A location is what the user's flags name.
type location struct {
	connection connection
	files      []string
	kustomize  string
	recursive  bool
	forceLive  bool
	all        bool
	selector   string
}

// needs say what a command reads from any location.
type needs struct {
	filesOnly bool // accept files without VMs
	// withVMs reads VMs of the cluster even if files have VMs, skips VMIs and profiles, and applies
	// the selector to VMs of files, too.
	withVMs      bool
	withoutVMs   bool // skip VMs of the cluster
	presetsOnly  bool // skip VMs and policies of the cluster
	imports      bool // read what `import` converts, too
	allowMissing bool // accept files that do not exist
	keepText     bool // keep the text of objects of files
	partial      bool // continue with the other objects if some cannot be read
	// required and presetsOptional are those of live.Query.
	required        []string
	presetsOptional bool
	// maxInMemory is the number of VMs of files that are held in memory. If there are more,
	// input.VMs streams them. 0 means no limit.
	maxInMemory int
}

func (o *source) declare(c *cobra.Command) {
	o.connection.declare(c)
	f := c.Flags()
	f.Lookup("namespace").Usage = "namespace of objects without one, and the namespace to read from a cluster (default: that of the context, or default)"
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder, or - for standard input; can be repeated")
	f.BoolVarP(&o.recursive, "recursive", "R", true, "read folders recursively")
	f.StringVarP(&o.kustomize, "kustomize", "k", "", "folder with a kustomization to build")
	f.BoolVar(&o.forceLive, "live", false, "also read a cluster, for objects that are not in -f")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "read all namespaces of the cluster")
	f.StringVarP(&o.selector, "selector", "l", "", "read only VMs and VMIs of the cluster with these labels, like kubectl -l")
}

func (o *source) live(args []string) bool {
	return len(args) > 0 || o.all || o.selector != "" && !o.withVMs || o.forceLive || o.connection.chosen() || len(o.files) == 0 && o.kustomize == ""
}

func (o *source) check(args []string) error {
	names, err := live.Names(args)
	problems := []error{err}
	for _, n := range names {
		switch {
		case o.all && !n.IsAll():
			problems = append(problems, errors.New("-A and names are mutually exclusive"))
		case o.selector != "" && !n.IsAll():
			problems = append(problems, errors.New("-l and names are mutually exclusive"))
		}
	}
	if _, err := labels.Parse(o.selector); err != nil {
		problems = append(problems, fmt.Errorf("invalid selector -l %q: %w", o.selector, err))
	}
	return errors.Join(problems...)
}

func (o *source) manifests(s streams, limit int) ([]manifest.Object, error) {
	o.input = manifest.Sources{Stdin: s.in, Names: o.files, Recursive: o.recursive, AllowMissing: o.allowMissing, KeepText: o.keepText}
	objects, err := o.input.Objects(limit)
	note(s, skippedFiles(o.input.Skipped))
	if o.kustomize == "" {
		return objects, err
	}
	built, kustomized := kustomize.Build(o.kustomize)
	return append(objects, built...), errors.Join(err, kustomized)
}

// skippedFiles returns a note about files that are not manifests; nil for none.
func skippedFiles(files []string) []string {
	const shown = 3
	if len(files) == 0 {
		return nil
	}
	return []string{"skipped files that are not Kubernetes manifests: " + tree.List(files, shown)}
}

// args name VMs and presets of the cluster.
func (o *settings) objects(ctx context.Context, s streams, args []string) ([]manifest.Object, error) {
	files, cluster, err := o.sources(ctx, s, args)
	if err != nil || len(cluster) == 0 {
		return files, err
	}
	return simulate.Replace(cluster, files, o.namespace), nil
}

// sources sets o.namespace and o.mode.
func (o *settings) sources(ctx context.Context, s streams, args []string) (files, cluster []manifest.Object, err error) {
	limit := o.maxInMemory
	if limit == 0 || o.live(args) {
		limit = math.MaxInt // objects of the cluster are compared with all VMs of files
	}
	files, err = o.manifests(s, limit)
	if o.partial {
		o.unread, err = err, nil
	}
	if err != nil || !o.live(args) {
		return files, nil, err
	}
	cluster, err = o.stored(ctx, s, args, files)
	return files, cluster, err
}

func (o *settings) stored(ctx context.Context, s streams, args []string, files []manifest.Object) ([]manifest.Object, error) {
	config, namespace, err := o.connection.config()
	if errors.Is(err, errNoCluster) && len(args) > 0 {
		return nil, fmt.Errorf("cannot read %s of a cluster: %w", strings.Join(args, " "), err)
	}
	if errors.Is(err, errNoCluster) && len(files) == 0 {
		return nil, fmt.Errorf("-f is required: name files or folders with VMs and presets, or select a cluster: %w", err)
	}
	if err != nil {
		return nil, err
	}
	o.namespace = namespace
	if !o.modeGiven {
		if o.mode, err = modeOf(config); err != nil {
			return nil, err
		}
	}
	names, err := live.Names(args)
	if err != nil {
		return nil, err
	}
	from, err := o.reader(config)
	if err != nil {
		return nil, err
	}
	if err := o.readStrategy(ctx, s, from.Objects); err != nil {
		return nil, err
	}
	query := o.query(names, simulate.NewSurvey(files, namespace))
	out, notes, err := from.Read(ctx, query)
	note(s, notes)
	if err != nil || !query.Policies {
		return out, err
	}
	params, err := o.parameters(ctx, s, from, files, out)
	return append(out, params...), err
}

func (o *settings) reader(config *rest.Config) (*live.Cluster, error) {
	objects, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return nil, err
	}
	resources, err := newClient(config, discovery.NewDiscoveryClientForConfig)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources))
	return &live.Cluster{Objects: objects, Mapper: mapper, Name: o.connection.cluster()}, nil
}

// parameters includes those that files replace, because a plan needs them.
func (o *settings) parameters(ctx context.Context, s streams, from *live.Cluster, files, cluster []manifest.Object) ([]manifest.Object, error) {
	objects := slices.Concat(files, cluster)
	references := simulate.References(objects)
	if len(references) == 0 {
		return nil, nil
	}
	var namespaces []string
	if !o.all {
		namespaces = sets.List(sets.New(simulate.NewSurvey(objects, o.namespace).Namespaces...).Insert(o.namespace))
	}
	params, notes, err := from.Parameters(ctx, references, namespaces)
	note(s, notes)
	return simulate.Without(params, cluster, o.namespace), err
}

func (o *settings) query(names []live.Name, files simulate.Survey) live.Query {
	fromFiles := len(o.files) > 0 || o.kustomize != ""
	q := live.Query{
		Names: names, Selector: o.selector, Addon: o.mode == modeAddon,
		VMs:      o.withVMs || len(names) == 0 && o.readsVMs(fromFiles, files.VMs),
		Policies: !o.presetsOnly,
		OnlyVMs:  o.withVMs,
		Imports:  o.imports,
		Required: o.required, PresetsOptional: o.presetsOptional,
		ContextOnly: len(names) > 0 || o.selector != "" || fromFiles,
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

// readsVMs reports whether VMs of the cluster are read although no arguments name them.
func (o *settings) readsVMs(fromFiles, inFiles bool) bool {
	if o.presetsOnly || o.withoutVMs {
		return false
	}
	return o.all || o.selector != "" || !fromFiles || !inFiles && !o.filesOnly
}

var kubeVirts = kubevirtv1.GroupVersion.WithResource("kubevirts")

// modeOf returns addon if the cluster has KubeVirt.
func modeOf(config *rest.Config) (string, error) {
	hasKubeVirt, err := serves(config, kubeVirts)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot detect whether the cluster has KubeVirt: %w", err)
	case hasKubeVirt:
		return modeAddon, nil
	}
	return modeStandalone, nil
}

// readStrategy reads KubeVirt's rollout strategy from the cluster if the command depends on it and
// no flag gives it. A role of KubeVirt allows that to all users.
func (o *settings) readStrategy(ctx context.Context, s streams, cluster dynamic.Interface) error {
	if o.mode != modeAddon || !o.readsStrategy {
		return nil
	}
	installed, err := cluster.Resource(kubeVirts).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		note(s, []string{"KubeVirt's rollout strategy is unknown; LiveUpdate, its default, is assumed unless --vm-rollout-strategy says otherwise: " + err.Error()})
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot read KubeVirt's rollout strategy: %w", err)
	}
	if installed != nil && len(installed.Items) > 0 {
		strategy, _, _ := unstructured.NestedString(installed.Items[0].Object, "spec", "configuration", "vmRolloutStrategy")
		o.rules.NoLiveUpdate = strategy == string(kubevirtv1.VMRolloutStrategyStage)
	}
	return nil
}

// serves reports whether a cluster serves a resource.
func serves(config *rest.Config, resource schema.GroupVersionResource) (bool, error) {
	client, err := newClient(config, discovery.NewDiscoveryClientForConfig)
	if err != nil {
		return false, err
	}
	found, err := client.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(found.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }), nil
}

// quiet disables warnings about API versions and client-side rate limits.
func quiet(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1 // API servers limit requests themselves
	return config
}

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

// named accepts names of objects in a cluster and rejects names of files.
func named(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if err := noFile(arg); err != nil {
			return err
		}
	}
	_, err := live.Names(args)
	return err
}

func noFile(arg string) error {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) {
		return fmt.Errorf("%s: use -f for each file, or -f with their folder", arg)
	}
	typed, _, isPath := strings.Cut(arg, "/")
	if _, err := os.Stat(arg); isPath && !live.IsType(typed) && err == nil {
		return fmt.Errorf("%s: use -f for files and folders", arg)
	}
	return nil
}

// splitPath separates names of objects from a field path, which is the last argument.
func splitPath(args []string) (names []string, path string) {
	last := len(args) - 1
	if last < 0 || !isFieldPath(args[last]) {
		return args, ""
	}
	return args[:last], strings.TrimPrefix(args[last], ".")
}

// isFieldPath tells field paths, even misspelt ones, from names of objects.
func isFieldPath(arg string) bool {
	roots := []string{"spec", "metadata", "status", "apiVersion", "kind"}
	root, rest := strings.TrimPrefix(arg, "."), ""
	if end := strings.IndexAny(root, ".[/"); end >= 0 {
		root, rest = root[:end], root[end:]
	}
	switch {
	case strings.HasPrefix(rest, "/"), live.IsType(arg):
		return false
	case slices.Contains(roots, root), strings.HasPrefix(arg, "."), strings.Contains(arg, "["), arg != strings.ToLower(arg):
		return true
	}
	return rest != "" && spelling.Nearest(root, slices.Values(roots)) != ""
}
