// Command kubevirt-bin is one program that can be virt-controller or virtctl of KubeVirt, or
// kubevirt-objects, which writes what virt-operator would apply. Its own name or its first argument
// chooses. virt-api is a program of its own, because its packages take seconds to start.
//
// It is a Go module of its own, so that KubeVirt's dependencies never reach virtwright's go.mod.
// KubeVirt imports three modules of the template API, which tests do not install; the modules in
// stubs stand in for them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"kubevirt.io/kubevirt/pkg/virt-controller/watch"
	"kubevirt.io/kubevirt/pkg/virtctl"
)

var programs = map[string]func() int{
	"virt-controller":  func() int { watch.Execute(); return 0 },
	"virtctl":          virtctl.Execute,
	"kubevirt-objects": writeObjects,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "cannot run %q: want virt-controller, virtctl or kubevirt-objects\n", name)
		os.Exit(2)
	}
	os.Exit(run())
}
