package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const templateHelp = `Make templates of virtual machines, and virtual machines of templates.

Every value of a machine's instance becomes a parameter whose default is the value as it is.
A template has no secrets of the machine that it is made of: parameters that stand for them
have to be given.

create asks a cluster for a template of a machine that it has; generate makes one of a
manifest, and process makes machines of a template, both without a cluster.`

func newTemplate(shown string, s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "template",
		Short: "Make templates of virtual machines, and virtual machines of templates",
		Long:  templateHelp,
		Args:  subcommands,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newTemplateCreate(shown, s), newTemplateGenerate(shown, s), newTemplateProcess(shown, s))
	return c
}

// making are the flags of every command that makes templates.
type making struct {
	name        string
	format      string
	dataVolumes string
	labels      map[string]string
}

func (o *making) declare(c *cobra.Command, format, formatUsage string) {
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "name of the template; else the machine's, with -template behind it")
	f.StringVar(&o.format, "format", format, "format of the template: "+strings.Join(sspv1alpha1.FormatNames(), ", ")+formatUsage)
	f.StringVar(&o.dataVolumes, "data-volumes", string(sspv1alpha1.DataVolumesKeep), "what becomes of dataVolumeTemplates: Keep them as they are, or Rename them in every machine made of the template")
	f.StringToStringVar(&o.labels, "label", nil, "labels of the template, not of machines made of it: k=v,…; may be given several times")
	for flag, values := range map[string][]string{"format": sspv1alpha1.FormatNames(), "data-volumes": dataVolumes()} {
		offer(c, flag, values)
	}
}

// check reports every flag that is wrong.
func (o *making) check() error {
	problems := []error{
		oneOf("--data-volumes", o.dataVolumes, dataVolumes()...),
		labelProblems("--label", o.labels),
	}
	if o.format != "" {
		problems = append(problems, oneOf("--format", o.format, sspv1alpha1.FormatNames()...))
	}
	if o.name != "" {
		for _, reason := range validation.IsDNS1123Subdomain(o.name) {
			problems = append(problems, fmt.Errorf("--name %q: %s", o.name, reason))
		}
	}
	return errors.Join(problems...)
}

// named is the name of the template of a machine.
func (o *making) named(machine string) string {
	if o.name != "" {
		return o.name
	}
	return machine + "-template"
}

func dataVolumes() []string {
	return []string{string(sspv1alpha1.DataVolumesKeep), string(sspv1alpha1.DataVolumesRename)}
}

func labelProblems(flag string, labels map[string]string) error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, reason := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])) {
			problems = append(problems, fmt.Errorf("%s %s=%s: %s", flag, key, labels[key], reason))
		}
	}
	return errors.Join(problems...)
}

func namespaceProblems(flag, namespace string) error {
	var problems []error
	if namespace != "" {
		for _, reason := range validation.IsDNS1123Label(namespace) {
			problems = append(problems, fmt.Errorf("%s %q: %s", flag, namespace, reason))
		}
	}
	return errors.Join(problems...)
}

// of keeps the objects that a command is about. The others are an error where
// the user named their file, and left out with a note otherwise.
func of(objects []manifest.Object, about func(manifest.Object) bool, want string, s streams) ([]manifest.Object, error) {
	var out []manifest.Object
	var problems []error
	left := map[offline.Leftover]int{}
	for _, o := range objects {
		switch {
		case about(o):
			out = append(out, o)
		case o.Named:
			problems = append(problems, fmt.Errorf("%s: kind %s of %s is not for this: want %s", o.Where, o.Kind, o.APIVersion, want))
		default:
			left[offline.Leftover{File: o.Where.File, APIVersion: o.APIVersion, Kind: o.Kind}]++
		}
	}
	var notes []string
	for l, count := range left {
		l.Count = count
		notes = append(notes, fmt.Sprintf("Note: %s\n", l))
	}
	slices.Sort(notes)
	fmt.Fprint(s.err, strings.Join(notes, ""))
	return out, errors.Join(problems...)
}

// turnedDown says why nothing comes of an object that could be read.
func turnedDown(o manifest.Object, what, why string) error {
	return declined{fmt.Errorf("%s: %s:\n  %s", o.Where, what, strings.ReplaceAll(why, "\n", "\n  "))}
}

// called is kind, namespace and name of an object in JSON's form.
func called(kind string, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if generated, _ := metadata["generateName"].(string); name == "" && generated != "" {
		name = generated + "*"
	}
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}
