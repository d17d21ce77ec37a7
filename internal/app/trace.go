package app

import (
	"context"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weft-fabric/weft/tracing"
)

// exporting reports whether OpenTelemetry's variables ask for traces: an endpoint is
// given, and neither the SDK nor its exporter is switched off. Sampling, headers and
// time-outs are read from their variables by the SDK itself.
func exporting(env func(string) string) bool {
	endpoint := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + env("OTEL_EXPORTER_OTLP_ENDPOINT")
	return endpoint != "" && !strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") && env("OTEL_TRACES_EXPORTER") != "none"
}

// trace begins to export traces if the environment asks for that. The exporter
// connects when it has something to say, so nothing here waits for a collector, and
// one that is away costs spans and no jobs.
func (a *App) trace(ctx context.Context) error {
	if !exporting(os.Getenv) {
		return nil
	}
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return Usage("OTEL_EXPORTER_OTLP_PROTOCOL is %q; weft speaks http/protobuf alone: leave it out, and give the endpoint of OTLP over HTTP, by default port 4318", protocol)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return Usage("traces cannot be exported by the variables OTEL_EXPORTER_OTLP_*: %w", err)
	}
	of, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "weft"), attribute.String("service.version", a.options.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	)
	if err != nil {
		return Usage("traces cannot be described by the variables OTEL_*: %w", err)
	}
	log := a.options.Logger
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces not exported", "error", err) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(of))
	a.tracer = tracing.New(tracing.Options{Provider: provider})
	a.cleanups.add("the traces", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil { // what the work amounts to does not depend on it
			log.Warn("last traces not exported", "error", err)
		}
		return nil
	})
	return nil
}

// Environ gives an attempt's command the context of its span. It is nil if no traces
// are made.
func (a *App) Environ() func(context.Context) []string {
	if a.tracer == nil {
		return nil
	}
	return a.tracer.Environ
}
