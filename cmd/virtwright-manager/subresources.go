package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/virtwright/virtwright/lifecycle/subresources"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/limits"
)

// subresourceOptions are what the flags say of the subresource API.
type subresourceOptions struct {
	address  string
	service  types.NamespacedName
	allowGet bool
}

func (o *subresourceOptions) declare(flags *flag.FlagSet) {
	flags.StringVar(&o.address, "subresources-bind-address", "", "standalone: HOST:PORT of the aggregated API that starts and stops VMs (default: none)")
	flags.Func("subresources-service", "NAMESPACE/NAME of the Service that the APIService of the aggregated API names", func(text string) (err error) {
		o.service, err = namespacedName(text)
		return err
	})
	flags.BoolVar(&o.allowGet, "subresources-allow-get", false, "let GET start, stop and restart VMs, too, which roles that only read may then do")
}

// on reports whether there is anything to serve.
func (o *subresourceOptions) on() bool { return o.address != "" && o.address != "0" }

func (o *subresourceOptions) complete(mode string) error {
	if !o.on() {
		return nil
	}
	if mode != modeStandalone {
		return errors.New("--subresources-bind-address is for --mode standalone: alongside KubeVirt, KubeVirt serves this API")
	}
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return fmt.Errorf("cannot understand --subresources-bind-address: %w", err)
	}
	return nil
}

// services are the APIServices that lead here.
func (o *subresourceOptions) services() []string {
	if !o.on() {
		return nil
	}
	return subresources.APIServices()
}

// serveSubresources adds the aggregated API, and that it must be served before
// the process is ready.
func (p *process) serveSubresources(checks map[string]healthz.Checker) error {
	o := p.options.subresources
	if !o.on() {
		return nil
	}
	server, err := subresources.New(subresources.Options{
		Config: rest.CopyConfig(p.config), Address: o.address, AllowGet: o.allowGet,
		Certificate: p.authority.GetCertificate, Version: kubevirtVersion(), Outermost: func(h http.Handler) http.Handler { return limits.Deadline(requestTime, p.stop.handler(h)) },
		Innermost: func(h http.Handler) http.Handler { return p.budget.Handler(requestTime, h) },

		Presets: subresources.Presets{
			Engine: p.options.engine(), Snapshots: p.presets,
			Namespaces: &webhooks.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
		},
		Profiles: p.profiles,
	})
	if err != nil {
		return err
	}
	checks["subresources"] = func(*http.Request) error { return server.Ready() }
	if err := p.manager.Add(onEveryReplica(func(ctx context.Context) error { return server.Start(ctx) })); err != nil {
		return fmt.Errorf("cannot add the subresource API: %w", err)
	}
	return nil
}

// kubevirtVersion is that of the API that is served, with which clients compare
// their own.
func kubevirtVersion() version.Info {
	out := version.Info{
		GitVersion: "v0.0.0", GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	built, _ := debug.ReadBuildInfo()
	if built == nil {
		return out
	}
	for _, module := range built.Deps {
		if module.Path == "kubevirt.io/api" {
			out.GitVersion = module.Version
		}
	}
	for _, setting := range built.Settings {
		switch setting.Key {
		case "vcs.revision":
			out.GitCommit = setting.Value
		case "vcs.time":
			out.BuildDate = setting.Value
		}
	}
	return out
}
