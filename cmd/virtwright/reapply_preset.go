package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// addMatched adds the VMs on which the preset would act at a reapply to those that hold values of it.
// The presets of the cluster are judged here. A preset that no record names and that does not exist is
// an error.
func (r *reapplication) addMatched(ctx context.Context, config *rest.Config, holding []types.NamespacedName, s streams) ([]types.NamespacedName, error) {
	_, namespace, err := r.connection.config()
	if err != nil {
		return nil, err
	}
	if r.everywhere {
		namespace = metav1.NamespaceAll
	}
	mode, err := modeOf(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(quiet(config))
	if err != nil {
		return nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	from := &live.Cluster{Objects: client, Name: r.connection.cluster()}
	objects, notes, err := from.Read(ctx, live.Query{
		All: r.everywhere, Namespace: namespace, Selector: r.selector, VMs: true, OnlyVMs: true, Surroundings: true, Addon: mode == modeAddon,
	})
	note(s, notes)
	if apierrors.IsForbidden(err) {
		note(s, []string{"only VMs that hold values of preset " + r.preset + " are chosen, because presets may not be read: " + err.Error()})
		return holding, nil
	}
	if err != nil {
		return nil, err
	}
	settings := offline.Settings{Engine: &presets.Engine{}, Namespace: namespace, Reapply: true, Live: true, Rules: &validation.Config{Addon: mode == modeAddon}}
	if mode == modeStandalone {
		settings.Engine.Platform = &presets.Platform{}
	}
	matched, refs, err := offline.Matched(ctx, objects, settings, r.preset)
	if err != nil {
		return nil, badInput(err)
	}
	if len(holding) == 0 && !refs[r.preset] {
		return nil, r.unknownPreset(refs)
	}
	all := slices.Concat(holding, matched)
	slices.SortFunc(all, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(all), nil
}

// unknownPreset names the nearest preset.
func (r *reapplication) unknownPreset(refs map[string]bool) error {
	bare, isCluster := presets.Bare(r.preset)
	near, other := presets.Nearest(r.preset, maps.Keys(refs)), "cluster/"+r.preset
	if isCluster {
		other = bare
	}
	if refs[other] {
		near = other
	}
	hint := ""
	if near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("--preset %s: the cluster has no such preset, and no VM holds values of it%s", r.preset, hint)
}
