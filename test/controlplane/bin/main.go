// Command controlplane-bin is one program that can be any part of a Kubernetes control plane,
// chosen by its own name or its first argument: kube-apiserver, kube-controller-manager, kubectl or
// etcd.
//
// It is a Go module of its own, so that the dependencies of Kubernetes' servers never reach
// virtwright's go.mod.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kubectl":                 runKubectl,
}

// runKubectl prints errors as the kubectl that people know does.
func runKubectl() int {
	cmdutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "cannot run %q: want one of etcd, kube-apiserver, kube-controller-manager, kubectl\n", name)
		os.Exit(2)
	}
	os.Exit(run())
}
