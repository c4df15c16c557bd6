package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/version"
)

func newVersion(shown string, s streams) *cobra.Command {
	o := &settings{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  # For a script\n  " + shown + " version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := oneOf("--output", o.output, "text", "json", "yaml"); err != nil {
				return err
			}
			v := version.Current()
			return o.printReport(s, v, func(s streams) error {
				_, err := fmt.Fprintln(s.out, v)
				return err
			})
		},
	}
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output `format`: text, json, yaml")
	offer(c, "output", []string{"text", "json", "yaml"})
	return c
}
