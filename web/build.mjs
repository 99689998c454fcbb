// Bundle src/ into the Python package, or into the folder that is named: `node build.mjs [FOLDER]`.
import { build } from "esbuild";

const folder = process.argv[2] ?? "../core/hwdag/page";

await build({
  entryPoints: { page: "src/main.ts" },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "inline",
});
await build({
  entryPoints: { page: "src/page.css" },
  outdir: folder,
  minify: true,
  charset: "utf8",
});
