// Package config is every setting of the weft program in one value.
//
// A setting comes from four places: a flag wins over the environment, the
// environment over the file, the file over the default. All of them write
// through one table of settings, so that a name, a form and an error are the
// same wherever the value came from. The package imports none of the packages
// it configures; the wiring translates a Config for them.
package config
