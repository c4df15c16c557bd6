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
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/virtualmachineinstance"
	"github.com/virtwright/virtwright/subresources"
	"github.com/virtwright/virtwright/templates"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
	"github.com/virtwright/virtwright/webhooks/limits"
)

type subresourceOptions struct {
	address  string
	service  types.NamespacedName
	allowGet bool
}

func (o *subresourceOptions) declare(flags *flag.FlagSet) {
	flags.StringVar(&o.address, "subresources-bind-address", "", "standalone: HOST:PORT of the aggregated API that starts and stops VMs (default: not served)")
	flags.Func("subresources-service", "NAMESPACE/NAME of the Service of the aggregated API", nameFlag(&o.service))
	flags.BoolVar(&o.allowGet, "subresources-allow-get", false, "let GET start, stop and restart VMs, too; read-only roles may then do that")
}

func (o *subresourceOptions) on() bool { return o.address != "" && o.address != "0" }

func (o *subresourceOptions) complete(mode string) error {
	if !o.on() {
		return nil
	}
	if mode != modeStandalone {
		return errors.New("--subresources-bind-address is for --mode standalone: alongside KubeVirt, KubeVirt serves this API")
	}
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return fmt.Errorf("invalid --subresources-bind-address: %w", err)
	}
	return nil
}

// services returns the names of the APIServices that this process serves.
func (o *subresourceOptions) services() []string {
	if !o.on() {
		return nil
	}
	return subresources.APIServices()
}

func (p *process) serveSubresources(checks map[string]healthz.Checker) error {
	o := p.options.subresources
	if !o.on() {
		return nil
	}
	server, err := subresources.New(subresources.Options{
		Config: rest.CopyConfig(p.config), Address: o.address, AllowGet: o.allowGet,
		Certificate: p.authority.GetCertificate, Version: kubevirtVersion(), Outermost: func(h http.Handler) http.Handler { return limits.Deadline(requestTime, p.stop.handler(h)) },
		Innermost: func(h http.Handler) http.Handler { return p.budget.Handler(requestTime, nil, h) },

		Presets: subresources.Presets{
			Engine: p.options.engine(), Snapshots: p.presets,
			Namespaces: &clients.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
		},
		Profiles: p.profiles,
	})
	if err != nil {
		return err
	}
	server.RegisterMetrics(metrics.Registry)
	checks["subresources"] = func(*http.Request) error { return server.Ready() }
	return p.add("the subresource API", onEveryReplica(server.Start))
}

// kubevirtVersion returns the version of KubeVirt's API, which clients compare with their own.
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

const defaultContainerDiskLimit = "20Gi"

type launcherOptions struct {
	image, pullPolicy, kvmResource, containerDiskLimit string
	pullSecrets                                        []string
	imageVolumes                                       bool
	limit                                              resource.Quantity
}

func (o *launcherOptions) declare(flags *flag.FlagSet) {
	flags.StringVar(&o.image, "launcher-image", "", "standalone: image of virtwright-launcher, which runs each VMI in a pod; without it no VMI starts")
	flags.StringVar(&o.pullPolicy, "launcher-image-pull-policy", string(corev1.PullIfNotPresent), "standalone: Always, IfNotPresent or Never")
	flags.Func("launcher-image-pull-secret", "standalone: Secret with credentials for --launcher-image, in the namespace of each VMI; may be repeated", appendFlag(&o.pullSecrets))
	flags.StringVar(&o.kvmResource, "kvm-resource", "", "standalone: resource of a device plugin that provides /dev/kvm to pods, such as squat.ai/kvm; without it only VMIs start whose BackendProfile allows emulation")
	flags.StringVar(&o.containerDiskLimit, "container-disk-limit", defaultContainerDiskLimit, "standalone: maximum size of a disk that is copied from the image of a containerDisk")
	flags.BoolVar(&o.imageVolumes, "image-volumes", false, "standalone: mount the images of containerDisks as volumes instead of copying disks; nodes must support image volumes")
}

func (o *launcherOptions) complete() (err error) {
	if o.limit, err = resource.ParseQuantity(o.containerDiskLimit); err != nil || o.limit.Sign() <= 0 {
		return fmt.Errorf("--container-disk-limit must be a quantity greater than zero, such as 20Gi, not %q", o.containerDiskLimit)
	}
	return oneOf("--launcher-image-pull-policy", o.pullPolicy, string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever))
}

func (o *launcherOptions) settings() podspec.Settings {
	return podspec.Settings{
		Image: o.image, PullPolicy: corev1.PullPolicy(o.pullPolicy), PullSecrets: o.pullSecrets,
		KVMResource: corev1.ResourceName(o.kvmResource), ContainerDiskLimit: o.limit, ImageVolumes: o.imageVolumes,
	}
}

func (p *process) runVMIs(writer client.Client, recorder events.EventRecorder) error {
	controller := &virtualmachineinstance.Controller{
		Client: writer, Live: p.live, Events: recorder, Lock: p.lock, Pods: p.options.launcher.settings(), Profiles: p.profiles,
		Namespaces: &clients.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live}, Excluded: webhooks.ExcludedNamespaces(p.options.namespace),
		Clock: clock.RealClock{},
	}
	return controller.SetupWithManager(p.manager)
}

func (o *options) completeTemplates() error {
	known := sspv1alpha1.FormatNames()
	if len(o.templateFormats) == 0 {
		o.templateFormats = known
	}
	for i, name := range o.templateFormats {
		if err := oneOf("--template-formats", name, known...); err != nil {
			return err
		}
		if slices.Contains(o.templateFormats[:i], name) {
			return fmt.Errorf("--template-formats has %s twice", name)
		}
	}
	return nil
}

// forwarder returns the manager if it may create template requests for other users.
func forwarder(self string, trusted []string) string {
	if slices.Contains(trusted, self) {
		return self
	}
	return ""
}

func (p *process) makeTemplates(writer client.Client, recorder events.EventRecorder) error {
	return p.add("the controllers of templates", onEveryReplica(func(ctx context.Context) error {
		const note = "No templates are created until the API server serves their requests; is the CRD installed?"
		if !p.awaitKind(ctx, &sspv1alpha1.VirtualMachineTemplateRequest{}, 5*time.Second, note, sspv1alpha1.KindVirtualMachineTemplateRequest) {
			return nil // the process stops
		}
		return p.addTemplates(ctx, writer, recorder)
	}))
}

func (p *process) addTemplates(ctx context.Context, writer client.Client, recorder events.EventRecorder) error {
	authority := &clients.AccessReviewer{Client: p.live}
	requests := &templates.Controller{
		Client: writer, Live: p.live, Events: recorder, WhileLeading: p.lock.While, Formats: p.options.templateFormats,
		Authority: authority, Discovery: templates.Discovery{Client: p.rest},
		Metrics: templates.NewMetrics(metrics.Registry),
	}
	if err := requests.SetupWithManager(ctx, p.manager); err != nil {
		return err
	}
	if forwarder(p.user, trustedUsers(p.user, p.options)) == "" {
		logr.FromContextOrDiscard(ctx).Info("The annotation virtwright.dev/generate-template has no effect: the user of the manager is not trusted; "+
			"run the manager as a service account, or set --trusted-user", "user", p.user)
		return nil
	}
	trigger := &templates.Trigger{
		Client: writer, Live: p.live, Authority: authority, Formats: p.options.templateFormats, Events: recorder, WhileLeading: p.lock.While,
		Excluded: webhooks.ExcludedNamespaces(p.options.namespace),
	}
	return trigger.SetupWithManager(p.manager)
}

const serviceAccountPrefix = "system:serviceaccount:"

// trustedUsers returns the users whose writes are not checked.
func trustedUsers(self string, o *options) []string {
	trusted := []string{
		serviceAccountPrefix + "kube-system:generic-garbage-collector",
		serviceAccountPrefix + "kube-system:namespace-controller",
	}
	// A person who runs the manager uses kubectl as the same user, for whom presets must apply.
	if strings.HasPrefix(self, serviceAccountPrefix) || slices.Contains(o.trusted, self) {
		trusted = append(trusted, self)
	}
	slices.Sort(trusted)
	return trusted
}

// controllers returns the users of controllers that own VMs and VMIs.
func controllers(self string, o *options) []string {
	users := slices.DeleteFunc(slices.Clone(o.trusted), func(user string) bool { return user == self })
	if o.mode == modeAddon {
		for _, name := range []string{"kubevirt-apiserver", "kubevirt-controller", "kubevirt-handler", "kubevirt-synchronization-controller"} {
			users = append(users, serviceAccountPrefix+o.kubevirtNamespace+":"+name)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

func whoami(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("cannot read the name of the manager's user: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// mayLaunch returns nil if the manager may create the VMIs of VMs.
func mayLaunch(self string, o *options) error {
	if !slices.Contains(trustedUsers(self, o), self) {
		return fmt.Errorf("user %s of the manager may not set owner references, so no VM can start: "+
			"run the manager as a service account, or set --trusted-user=%s", self, self)
	}
	return nil
}
