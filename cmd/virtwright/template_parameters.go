package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// printParameters lists parameters for people.
func printParameters(out io.Writer, parameters []format.Listing) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "NAME\tTYPE\tDEFAULT\tREQUIRED\tPATH\n")
	for _, p := range parameters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Type, fallback(p), must(p), strings.Join(p.Paths, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeTable(out, text.String())
}

// fallback is what the parameter is where nothing is given.
func fallback(p format.Listing) string {
	switch {
	case p.Default != "":
		return cell(p.Default)
	case p.From != "":
		return "generated: " + cell(p.From)
	}
	return ""
}

// must says whether a value has to be given.
func must(p format.Listing) string {
	if p.Required && p.Default == "" && p.From == "" {
		return "yes"
	}
	return "no"
}
