package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/webhooks/limits"
)

// Roles of a process.
const (
	roleServing     = "serving"
	roleControllers = "controllers"
)

// Modes of an installation.
const (
	modeStandalone = "standalone"
	modeAddon      = "addon"

	// The values of --warnings.
	warnSurprises  = "Surprises"
	warnEverything = "Everything"
)

// Who makes the serving certificate.
const (
	certSelfSigned = "self-signed"
	certManager    = "cert-manager"
	certProvided   = "provided"
)

// options are what the flags say.
type options struct {
	mode            string
	roles           []string
	presetConflicts string
	warnings        string
	// maxExceptionDuration is 0 if exceptions may last for any time.
	maxExceptionDuration time.Duration
	platform             presets.Platform
	rules                validation.Config

	webhookAddress   string
	requestMemory    int64
	webhookURL       string
	webhookService   types.NamespacedName
	registerWebhooks bool
	serveV1alpha2    bool
	certMode         string
	lifetimes        certs.Lifetimes
	certificate      types.NamespacedName
	certDir          string
	certSecret       types.NamespacedName
	subresources     subresourceOptions

	metricsAddress  string
	healthAddress   string
	leaderElect     bool
	deployment      string
	shutdownDelay   time.Duration
	shutdownTimeout time.Duration

	selfTest          bool
	retire            bool
	namespace         string
	kubevirtNamespace string
	trusted           []string
	nodeAgent         string
	templateFormats   []string

	logFormat string
	logLevel  string
}

// namespaceFile tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func parse(args []string, output io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("virtwright-manager", flag.ContinueOnError)
	flags.SetOutput(output)
	config.RegisterFlags(flags)
	o.declareRoles(flags)
	o.declareServing(flags)
	o.declareProcess(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	}
	return o, o.complete()
}

func (o *options) declareRoles(flags *flag.FlagSet) {
	flags.StringVar(&o.mode, "mode", modeStandalone, "standalone: no KubeVirt in the cluster; addon: alongside KubeVirt, which then gives defaults")
	flags.Func("roles", "comma-separated: serving (webhooks), controllers (default both)", func(text string) error {
		o.roles = strings.Split(text, ",")
		return nil
	})
	flags.StringVar(&o.presetConflicts, "preset-conflicts", "warn", "what happens when only names decide between two presets: warn, or reject the VM")
	flags.StringVar(&o.warnings, "warnings", warnSurprises, "what presets warn users of: Surprises, such as an overruled value; or Everything, also each value that a preset gave")
	flags.DurationVar(&o.maxExceptionDuration, "max-exception-duration", 0, "how far ahead spec.until of a PresetException may be, which is then required (default: no limit)")
	flags.StringVar(&o.platform.Architecture, "default-architecture", "", "architecture of VMs that name none (default amd64); addon: rules assume it, and without it they only warn where the architecture decides")
	flags.StringVar(&o.platform.EvictionStrategy, "default-eviction-strategy", "", "standalone: eviction strategy of VMs that name none (default None)")
	flags.StringVar(&o.platform.NetworkInterface, "default-network-interface", "", "standalone: binding of the default network, bridge or masquerade (default bridge)")
	flags.StringVar(&o.platform.CPUModel, "default-cpu-model", "", "standalone: CPU model of VMs that name none (default host-model)")
	for _, s := range validation.Settings() {
		set := func(text string) error { return s.Set(&o.rules, text) }
		if s.Switch {
			flags.BoolFunc(s.Name, s.Usage, set)
		} else {
			flags.Func(s.Name, s.Usage, set)
		}
	}
	flags.Func("template-formats", "comma-separated formats of templates that are made of VMs: openshiftTemplate, virtualMachineTemplate, configMap (default all); a request that names none gets the first that the cluster serves", func(text string) error {
		o.templateFormats = strings.Split(text, ",")
		return nil
	})
	flags.Func("trusted-user", "a user who may write what is guarded, as a controller does; may be given several times", func(name string) error {
		o.trusted = append(o.trusted, name)
		return nil
	})
	flags.StringVar(&o.nodeAgent, "node-agent", "", "standalone: the user as which node agents run instances, each on its node; trusted, and bound by a policy of its own (default: none)")
	flags.StringVar(&o.kubevirtNamespace, "kubevirt-namespace", "kubevirt", "addon: where KubeVirt is installed; its controllers are trusted")
}

func (o *options) declareServing(flags *flag.FlagSet) {
	flags.StringVar(&o.webhookAddress, "webhook-bind-address", ":9443", "HOST:PORT of the webhooks")
	o.requestMemory = limits.DefaultBudget
	flags.Func("request-memory", "how much memory the requests that are being answered may take together; a quarter of it is for small ones (default 96Mi)", memoryFlag(&o.requestMemory, limits.MinBudget))
	flags.StringVar(&o.webhookURL, "webhook-url", "", "how API servers reach the webhooks from outside the cluster: https://HOST:PORT")
	flags.Func("webhook-service", "how API servers reach the webhooks in the cluster: NAMESPACE/NAME of a Service", func(text string) (err error) {
		o.webhookService, err = namespacedName(text)
		return err
	})
	flags.BoolVar(&o.registerWebhooks, "register-webhooks", false, "create or update the webhook configurations once the webhooks can answer")
	flags.BoolVar(&o.serveV1alpha2, "serve-v1alpha2", false, "with --register-webhooks, standalone: also serve VirtualMachines in kubevirt.io/v1alpha2, which costs two calls of a webhook for each event of each VM")
	flags.StringVar(&o.certMode, "cert-mode", certSelfSigned, "who makes the serving certificate: self-signed (the manager), cert-manager, or provided (somebody else); the latter two write --cert-secret")
	flags.Func("certificate", "cert-manager: NAMESPACE/NAME of the Certificate whose Secret --cert-secret is", func(text string) (err error) {
		o.certificate, err = namespacedName(text)
		return err
	})
	flags.StringVar(&o.certDir, "cert-dir", "", "folder that keeps the self-signed certificates (default: in memory)")
	flags.DurationVar(&o.lifetimes.CA, "cert-ca-duration", 365*24*time.Hour, "self-signed: how long a certificate authority lives")
	flags.DurationVar(&o.lifetimes.Serving, "cert-duration", 90*24*time.Hour, "self-signed: how long a serving certificate lives")
	flags.DurationVar(&o.lifetimes.Overlap, "cert-overlap", time.Hour, "self-signed: how long everybody may take to learn of a new authority before it signs anything")
	flags.Func("cert-secret", "NAMESPACE/NAME of the Secret with the serving certificate; self-signed, it keeps what the manager makes, which several replicas need", func(text string) (err error) {
		o.certSecret, err = namespacedName(text)
		return err
	})
	o.subresources.declare(flags)
}

func (o *options) declareProcess(flags *flag.FlagSet) {
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "HOST:PORT of /metrics; 0 for none")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "HOST:PORT of /healthz and /readyz; 0 for none")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "let one replica run the controllers at a time")
	flags.BoolVar(&o.selfTest, "self-test", false, "ask the cluster whether an installation does its work, and end")
	flags.BoolVar(&o.retire, "retire", false, "standalone: have VirtualMachines converted by --webhook-service no more, before that is uninstalled, and end")
	flags.StringVar(&o.namespace, "namespace", "", "the manager's own namespace (default: the pod's, else virtwright-system)")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or text")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&o.shutdownDelay, "shutdown-delay", 5*time.Second, "how long to keep serving after SIGTERM at least, until API servers use other replicas")
	flags.StringVar(&o.deployment, "deployment", "", "the Deployment of this pod, in --namespace: after SIGTERM, keep serving until another of its replicas is ready (default: do not wait)")
	flags.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 85*time.Second, "with --deployment, how long to keep serving after SIGTERM at most; shorter than the pod's grace period by 35s")
}

// complete checks the options, every one of them, and fills in what follows from others.
func (o *options) complete() error {
	if len(o.roles) == 0 {
		o.roles = []string{roleServing, roleControllers}
	}
	if o.namespace == "" {
		o.namespace = podNamespace()
	}
	o.rules.Addon, o.rules.Architecture = o.mode == modeAddon, o.platform.Architecture
	o.platform.NoLiveUpdate = o.rules.NoLiveUpdate
	problems := []error{
		oneOf("--mode", o.mode, modeStandalone, modeAddon),
		oneOf("--preset-conflicts", o.presetConflicts, "warn", "reject"),
		oneOf("--warnings", o.warnings, warnSurprises, warnEverything),
		notNegative("--max-exception-duration", o.maxExceptionDuration),
		oneOf("--log-format", o.logFormat, "json", "text"),
		oneOf("--default-network-interface", o.platform.NetworkInterface, "", "bridge", "masquerade"),
		new(slog.LevelVar).UnmarshalText([]byte(o.logLevel)),
		o.completeWebhooks(),
		o.subresources.complete(o.mode),
		o.completeNodeAgent(),
		o.completeTemplates(),
	}
	for _, role := range o.roles {
		problems = append(problems, oneOf("--roles", role, roleServing, roleControllers))
	}
	return errors.Join(append(problems, o.completeCertificates())...)
}

func (o *options) completeNodeAgent() error {
	switch {
	case o.nodeAgent == "":
		return nil
	case o.mode != modeStandalone:
		return errors.New("--node-agent is for --mode standalone: alongside KubeVirt, KubeVirt runs instances")
	case slices.Contains(o.trusted, o.nodeAgent):
		return fmt.Errorf("--node-agent and --trusted-user name the same user, %s: a node agent is bound by a policy, and no other trusted user is", o.nodeAgent)
	}
	return nil
}

func (o *options) completeCertificates() error {
	if err := oneOf("--cert-mode", o.certMode, certSelfSigned, certManager, certProvided); err != nil {
		return err
	}
	if err := o.lifetimes.Check(); err != nil {
		return fmt.Errorf("--cert-ca-duration, --cert-duration and --cert-overlap: %w", err)
	}
	switch {
	case o.certDir != "" && o.certSecret.Name != "":
		return errors.New("--cert-dir and --cert-secret exclude each other")
	case o.certMode != certSelfSigned && o.certSecret.Name == "":
		return fmt.Errorf("--cert-mode=%s needs --cert-secret, the Secret with the certificate", o.certMode)
	case o.certMode == certManager && o.certificate.Name == "":
		return errors.New("--cert-mode=cert-manager needs --certificate, the Certificate whose Secret --cert-secret is")
	}
	return nil
}

func (o *options) completeWebhooks() error {
	_, port, err := net.SplitHostPort(o.webhookAddress)
	if err != nil {
		return fmt.Errorf("cannot understand --webhook-bind-address: %w", err)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 1 {
		return fmt.Errorf("--webhook-bind-address needs a port number, not %q", port)
	}
	if o.webhookURL != "" {
		u, err := url.Parse(o.webhookURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.webhookURL)
		}
	}
	return o.completeRegistration()
}

func (o *options) completeRegistration() error {
	if o.registerWebhooks && o.webhookURL == "" && o.webhookService.Name == "" {
		return errors.New("--register-webhooks needs --webhook-url or --webhook-service, so that API servers know the way")
	}
	if o.serveV1alpha2 && !o.registerWebhooks {
		return errors.New("--serve-v1alpha2 needs --register-webhooks, which serves that version")
	}
	if o.retire && o.webhookService.Name == "" {
		return errors.New("--retire needs --webhook-service, whose conversion is to end")
	}
	return nil
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %q, not %q", flag, allowed, value)
}

func notNegative(flag string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s must not be negative: %s", flag, value)
	}
	return nil
}

func namespacedName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" {
		return types.NamespacedName{}, fmt.Errorf("want NAMESPACE/NAME, not %q", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func podNamespace() string {
	if content, err := os.ReadFile(namespaceFile); err == nil && len(content) > 0 {
		return strings.TrimSpace(string(content))
	}
	return "virtwright-system"
}

func (o *options) has(role string) bool { return slices.Contains(o.roles, role) }

// calledNames are the DNS names by which API servers call.
func (o *options) calledNames() []string {
	var names []string
	if u, err := url.Parse(o.webhookURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	for _, s := range []types.NamespacedName{o.webhookService, o.subresources.service} {
		if s.Name != "" {
			names = append(names, s.Name+"."+s.Namespace+".svc")
		}
	}
	return names
}

// certificateNames are what clients may call the servers.
func (o *options) certificateNames() []string {
	names := []string{"localhost"}
	if u, err := url.Parse(o.webhookURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	for _, s := range []types.NamespacedName{o.webhookService, o.subresources.service} {
		if s.Name != "" {
			dns := s.Name + "." + s.Namespace
			names = append(names, dns, dns+".svc", dns+".svc.cluster.local")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (o *options) engine() *presets.Engine {
	engine := &presets.Engine{RejectConflicts: o.presetConflicts == "reject", WarnEverything: o.warnings == warnEverything}
	if o.mode == modeStandalone {
		engine.Platform = &o.platform
	}
	return engine
}

func (o *options) logHandler(output io.Writer) slog.Handler {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(o.logLevel)) // complete has checked it
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "text" {
		return slog.NewTextHandler(output, options)
	}
	return slog.NewJSONHandler(output, options)
}
