#!/bin/sh
# Installs Debian's Chromium for the browser tests, unless a Chromium or Chrome is installed already.
# Without one, those tests are skipped.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        echo "$(command -v "$name") is already installed."
        exit 0
    fi
done

if ! command -v apt-get >/dev/null 2>&1; then
    echo "install_chromium.sh: this system has no apt-get; install Chromium by hand." >&2
    exit 1
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "install_chromium.sh: run this as root, or install sudo." >&2
        exit 1
    fi
    as_root="sudo"
fi

export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update --quiet
$as_root apt-get install --quiet --yes --no-install-recommends chromium fonts-dejavu-core
chromium --version
