// Special functions that JavaScript lacks, to double precision.

/** 1 / (1 + exp(-x)), without overflow. */
export function expit(x) {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const small = Math.exp(x);
  return small / (1 + small);
}

/** Distribution function of the standard normal. */
export function ndtr(x) {
  const tail = 0.5 * erfc(Math.abs(x) / Math.SQRT2);
  return x > 0 ? 1 - tail : tail;
}

/** Complementary error function of x >= 0. */
export function erfc(x) {
  const scale = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (x < 2) {
    // erf(x) = 2 exp(-x^2) / sqrt(pi) * sum of x (2 x^2)^n / (1 * 3 * ... * (2n + 1)).
    let term = x;
    let sum = x;
    for (let n = 1; term > 1e-17 * sum; n += 1) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - 2 * scale * sum;
  }
  // Continued fraction x + (1/2)/(x + 1/(x + (3/2)/(x + ...))), from its far end.
  let fraction = x;
  for (let n = 120; n >= 1; n -= 1) fraction = x + (0.5 * n) / fraction;
  return scale / fraction;
}

const FACTORIALS = [0];

/** log n! for an integer n: cached sums of logarithms. */
export function logFactorial(n) {
  for (let k = FACTORIALS.length; k <= n; k += 1) {
    FACTORIALS.push(FACTORIALS[k - 1] + Math.log(k));
  }
  return FACTORIALS[n];
}

/** x log y, with 0 log 0 = 0. */
export function xlogy(x, y) {
  return x === 0 ? 0 : x * Math.log(y);
}

/** Gauss-Legendre nodes and weights on (-1, 1): Newton on the polynomial's recurrence. */
export function gaussLegendre(order) {
  const nodes = new Float64Array(order);
  const weights = new Float64Array(order);
  for (let k = 0; k < order; k += 1) {
    let x = -Math.cos((Math.PI * (k + 0.75)) / (order + 0.5));
    let slope = 0;
    for (let round = 0; round < 50; round += 1) {
      let [before, value] = [1, x];
      for (let n = 2; n <= order; n += 1) {
        [before, value] = [value, ((2 * n - 1) * x * value - (n - 1) * before) / n];
      }
      slope = (order * (x * value - before)) / (x * x - 1);
      const step = value / slope;
      x -= step;
      if (Math.abs(step) < 1e-16) break;
    }
    nodes[k] = x;
    weights[k] = 2 / ((1 - x * x) * slope * slope);
  }
  return { nodes, weights };
}
